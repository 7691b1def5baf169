"""The question before each action of `dpq top`, and what the action then does."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label

from dpq import DPQ, ConfigurationError
from dpq.model.display import shown
from dpq.model.rates import span
from dpq.views.words import this_user


class Field(NamedTuple):
    """A field of a question: its name, its label, and its first value."""

    name: str
    label: str
    value: str = ""


class Action(NamedTuple):
    """An action on a queue, with its question.

    Attributes:
        name: In the words of the footer.
        question: The text of the question; takes the queue's name and its number of dead letters.
        note: A text about the effects of the action.
        fields: The values that the action needs besides.
        act: Acts with the texts of the fields; returns a text about the result.
    """

    name: str
    question: Callable[[str, int], str]
    note: str
    fields: Sequence[Field]
    act: Callable[[DPQ[Any], Mapping[str, str]], str]


def seconds_of(text: str) -> float:
    """Read seconds.

    Raises:
        ConfigurationError: The text is no number.
    """
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"seconds is {text!r}: it must be a number, as 90") from None


def _pause(queue: DPQ[Any], said: Mapping[str, str]) -> str:
    seconds = seconds_of(said["seconds"]) if said["seconds"] else None
    queue.pause(seconds, by=this_user("dpq top"))
    return "paused" if seconds is None else f"paused for {span(seconds)}"


def _resume(queue: DPQ[Any], said: Mapping[str, str]) -> str:
    queue.resume(by=this_user("dpq top"))
    return "resumed"


def _replay(queue: DPQ[Any], said: Mapping[str, str]) -> str:
    return f"{queue.dead.replay()} dead letters replayed"


def _group(said: Mapping[str, str]) -> str:
    if not said["group"]:
        raise ConfigurationError("group is empty: name the group")
    return said["group"]


def _open(queue: DPQ[Any], said: Mapping[str, str]) -> str:
    queue.delay_group(_group(said), 0)
    return f"group {said['group']!r} opened"


def _close(queue: DPQ[Any], said: Mapping[str, str]) -> str:
    seconds = seconds_of(said["seconds"]) if said["seconds"] else None
    queue.delay_group(_group(said), seconds)
    until = "until it is opened" if seconds is None else f"for {span(seconds)}"
    return f"group {said['group']!r} closed {until}"


GROUP = Field("group", "group")

ACTIONS = {
    "pause": Action(
        "Pause",
        lambda name, _: f"Pause {name}?",
        "Nothing is handed out; what runs goes on.",
        [Field("seconds", "seconds (empty: until somebody resumes it)")],
        _pause,
    ),
    "resume": Action(
        "Resume",
        lambda name, _: f"Resume {name}?",
        "Tasks are handed out again, at once.",
        [],
        _resume,
    ),
    "replay": Action(
        "Replay",
        lambda name, dead: f"Replay {dead} dead letters of {name}?",
        "All of them run again, with all their attempts, as fast as the limits allow.",
        [],
        _replay,
    ),
    "open": Action(
        "Open group",
        lambda name, _: f"Open a group of {name}?",
        "Its tasks may run at once; what its limit has granted stays granted.",
        [GROUP],
        _open,
    ),
    "close": Action(
        "Close group",
        lambda name, _: f"Close a group of {name}?",
        "No task of it begins, for all consumers; what runs goes on.",
        [GROUP, Field("seconds", "seconds (empty: until it is opened)", "60")],
        _close,
    ),
}
"""The actions of `dpq top`, by the names in its keys."""


class Question(ModalScreen[Mapping[str, str] | None]):
    """Asks before an action; gives the texts of its fields, or None for no."""

    AUTO_FOCUS = ""  # `on_mount` sets the focus
    CSS = """
    Question { align: center middle; }
    #box { width: 64; max-width: 96%; height: auto; padding: 1 2; border: round $warning;
           background: $surface; }
    #note { color: $text-muted; margin-bottom: 1; width: 100%; }
    #question { text-style: bold; width: 100%; }
    #answers { height: 3; margin-top: 1; }
    #answers Button { margin-right: 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "Yes"),
        Binding("n,escape", "no", "No"),
    ]

    def __init__(self, action: Action, name: str, dead: int, known: Mapping[str, str]) -> None:
        """Ask about an action on a queue; `known` fills fields."""
        super().__init__()
        self._action = action
        self._question = action.question(shown(name), dead)
        self._known = known

    def compose(self) -> ComposeResult:
        """Lay out the question, its fields, and the two answers."""
        with Vertical(id="box"):
            yield Label(Text(self._question), id="question")
            yield Label(Text(self._action.note), id="note")
            for field in self._action.fields:
                yield Label(Text(field.label))
                value = self._known.get(field.name, field.value)
                yield Input(value, id=field.name, compact=True)
            with Horizontal(id="answers"):
                yield Button(f"{self._action.name} (y)", id="yes", variant="warning")
                yield Button("No (n)", id="no")

    def on_mount(self) -> None:
        """Put the focus on the first empty field, or on No: Enter alone does nothing by mistake."""
        fields = list(self.query(Input))
        empty = [field for field in fields if not field.value]
        first = (empty or fields)[:1]
        (first[0] if first else self.query_one("#no")).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the next field; behind the last one, to Yes."""
        event.stop()
        self.screen.focus_next()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Take a click as an answer."""
        if event.button.id == "yes":
            self.action_yes()
        else:
            self.action_no()

    def action_yes(self) -> None:
        """Give the texts of the fields."""
        self.dismiss({str(field.id): field.value.strip() for field in self.query(Input)})

    def action_no(self) -> None:
        """Do nothing."""
        self.dismiss(None)
