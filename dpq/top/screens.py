"""The screens of `dpq top`: all queues, and one of them."""

from typing import TYPE_CHECKING, ClassVar, Literal, cast

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Sparkline, Static

from dpq import Verdict
from dpq.model.display import shown
from dpq.registry.all_queues import QUEUES_A_CALL
from dpq.top.columns import ORDERS, Column, columns_for
from dpq.top.reader import Details
from dpq.views import words
from dpq.views.limits import why
from dpq.views.verdict import say_drain
from dpq.views.workers import working

if TYPE_CHECKING:
    from dpq.top.app import Top

NAME_WIDTH = (10, 32)
"""Columns of a queue's name, at least and at most."""

PANEL_FROM = 18
"""Rows of a terminal that has room for the panel below the queues."""

ACTS: list[BindingType] = [
    Binding("p", "app.act('pause')", "Pause"),
    Binding("r", "app.act('resume')", "Resume"),
    Binding("d", "app.act('replay')", "Replay"),
    Binding("o", "app.act('open')", "Open"),
    Binding("c", "app.act('close')", "Close"),
]
"""The keys that act; each asks first."""


class _Screen(Screen[None]):
    """A screen that shows rounds."""

    _laid_out = False

    @property
    def ready(self) -> bool:
        """Return True while the screen has its parts: after its layout, and before its end."""
        return self._laid_out and bool(self.query("#line")) and bool(self.query(DataTable))

    def on_mount(self) -> None:
        """Show the last round, and ask for a new round at once."""
        self._laid_out = True
        self.show()
        self.top.ask()

    @property
    def top(self) -> "Top":
        """Return the program."""
        return cast("Top", self.app)

    def chosen(self) -> str:
        """Return the name of the queue that keys act on; "" if there is none."""
        raise NotImplementedError

    def to_read(self) -> list[str]:
        """Return the names of the queues to read."""
        raise NotImplementedError

    def group(self) -> str:
        """Return the group that a question offers."""
        details = self.top.details_of(self.chosen())
        return str(details.closed[0].group) if details and details.closed else ""

    def show(self) -> None:
        """Show what the last round has read."""
        raise NotImplementedError

    def say_fault(self) -> None:
        """Say in the first line that the server does not answer, or that nothing is read."""
        line = self.query_one("#line", Static)
        line.update(Text(self.top.line()))
        line.set_class(bool(self.top.fault), "bad")


def told_of(details: Details, verdict: Verdict | None, now_ms: float) -> str:
    """Say the verdict, and name the closed groups and the next tasks."""
    said = [words.verdict(verdict)] if verdict else []
    said.append(f"drain: {say_drain(details.drain)}")
    said += [
        f"closed: {shown(words.cut(str(each.group)))}  {why(each)}, "
        f"opens {words.opens(each, now_ms)}"
        for each in details.closed[:3]
    ]
    return "\n".join(said)


def _side(column: Column) -> Literal["left", "right"]:
    """Return the side where the values and the title of a column stand: numbers to the right."""
    return "right" if column.width < 10 else "left"


class Rows(DataTable[Text]):
    """A table with the keys of a list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]


class Queues(_Screen):
    """All queues, a row for each; only the visible rows are read."""

    CSS = """
    #line { height: 1; color: $text-muted; padding: 0 1; }
    #line.bad { background: $error; color: $text; }
    #queues { height: 1fr; }
    #panel { height: auto; max-height: 9; padding: 0 1; border-top: solid $primary; }
    #none { padding: 1 2; }
    #filter { height: 1; border: none; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # Before the table's own binding of this key.
        Binding("enter", "open_queue", "Details", priority=True),
        # Not in the footer: at 80 columns it has no room for more.
        Binding("slash", "filter", show=False),
        Binding("escape", "all", show=False),
        Binding("s", "sort", show=False),
        *ACTS,
    ]

    def __init__(self) -> None:
        """Begin without columns: the width is not known yet."""
        super().__init__()
        self._sorted_by = self._shown_order = ""
        self._columns: list[Column] = []
        self._rows_of: list[str] = []
        self._name_width = 0

    def compose(self) -> ComposeResult:
        """Lay out a line, the table, the panel of the chosen queue, and the keys."""
        yield Static(id="line")
        hint = "a part of the name; Esc shows all queues"
        yield Input(id="filter", placeholder=hint, disabled=True)
        yield Static(
            "No queue yet: a queue is known after its first push, as with\n"
            """dpq push '{"hello": "world"}' --queue emails""",
            id="none",
        )
        yield Rows(id="queues", cursor_type="row", zebra_stripes=True)
        yield Static(id="panel")
        yield Footer(show_command_palette=False)

    @property
    def table(self) -> Rows:
        """Return the table."""
        return self.query_one("#queues", Rows)

    def chosen(self) -> str:
        """Return the name of the queue under the cursor."""
        row = self.table.cursor_row
        return self._rows_of[row] if 0 <= row < len(self._rows_of) else ""

    def to_read(self) -> list[str]:
        """Return the names of the visible rows, and of a few rows below them; sorted: of 100."""
        if self._sorted_by:
            return self._rows_of[:QUEUES_A_CALL]
        first = max(0, int(self.table.scroll_offset.y))
        return self._rows_of[first : first + max(10, self.table.size.height)]

    def on_resize(self, event: Resize) -> None:
        """Choose the columns anew."""
        self._columns = []
        if self.ready:
            self.show()

    def on_screen_resume(self) -> None:
        """Ask at once, since the rounds before were about one queue."""
        if self.ready:
            self.top.ask()

    def on_data_table_row_selected(self) -> None:
        """Show the queue of a row that was clicked."""
        self.action_open_queue()

    def on_data_table_row_highlighted(self) -> None:
        """Show the last snapshot of another queue, and ask for its details."""
        self._show_panel()
        self.top.ask()

    def action_open_queue(self) -> None:
        """Show the details of the chosen queue; after a filter is typed, go to the table."""
        if self.filter.has_focus:
            self.table.focus()
        elif self.chosen():
            self.app.push_screen(Queue(self.chosen()))

    @property
    def filter(self) -> Input:
        """Return the field of the filter."""
        return self.query_one("#filter", Input)

    def action_filter(self) -> None:
        """Type a part of the names to show."""
        self.filter.display, self.filter.disabled = True, False
        self.filter.focus()

    def action_all(self) -> None:
        """Show all queues again, by their names."""
        self.filter.value = self._sorted_by = ""
        self.filter.display, self.filter.disabled = False, True
        self.table.focus()
        self.show()

    def action_sort(self) -> None:
        """Sort by the next column, and after the last one by name again."""
        orders = ["", *(column.title for column in self._columns if column.title in ORDERS)]
        at = orders.index(self._sorted_by) if self._sorted_by in orders else 0
        self._sorted_by = orders[(at + 1) % len(orders)]
        self.show()
        self.top.ask()

    def on_input_changed(self) -> None:
        """Show the queues whose names have the typed part."""
        self.show()
        self.top.ask()

    def _names(self) -> list[str]:
        """Return the names to show, in their order; queues that were not read come last."""
        names = self._rows_of if self.top.round.names is None else self.top.round.names
        shown_names = [name for name in names if self.filter.value in name]

        def place(name: str) -> float:
            snapshot, _ = self.top.known(name)
            return -ORDERS[self._sorted_by](snapshot) if snapshot else 1

        return sorted(shown_names, key=place) if self._sorted_by else shown_names

    def show(self) -> None:
        """Show the queues; names and columns are laid out anew only if they have changed."""
        self.say_fault()
        names = self._names()
        empty = self.top.round.names is not None and not (self.top.round.names or self.top.fault)
        self.query_one("#none").display = empty
        self.table.display = not empty
        longest = max(map(cell_len, map(shown, names)), default=0)
        at_most = min(NAME_WIDTH[1], max(NAME_WIDTH[0], self.size.width // 3))
        width = min(max(longest, NAME_WIDTH[0]), at_most)
        columns = columns_for(self.size.width, width)
        laid = (self._columns, self._name_width, self._rows_of, self._shown_order)
        if (columns, width, names, self._sorted_by) != laid:
            self._shown_order = self._sorted_by
            self._lay_out(names, columns, width)
        now = self.top.now_ms()
        for name in self.to_read():
            snapshot, fault = self.top.known(name)
            for i, column in enumerate(columns):
                text = "" if snapshot is None else column.text(snapshot, now)
                if fault:
                    text = "cannot be read" if column.title == "verdict" else ""
                cell = Text(text, justify=_side(column), no_wrap=True)
                if self.table.get_cell(name, str(i)) != cell:
                    self.table.update_cell(name, str(i), cell)
        self._show_panel()

    def _lay_out(self, names: list[str], columns: list[Column], width: int) -> None:
        table, chosen = self.table, self.chosen()
        at = table.scroll_offset
        table.clear(columns=True)
        table.add_column("queue", width=width, key="name")
        for i, column in enumerate(columns):
            title = f"{column.title}↓" if column.title == self._sorted_by else column.title
            label = Text(title, justify=_side(column))
            table.add_column(label, width=column.width, key=str(i))
        for name in names:
            text = shown(name)
            text = text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"
            table.add_row(Text(text), *[Text("")] * len(columns), key=name)
        self._rows_of, self._columns, self._name_width = names, columns, width
        if chosen in names:
            table.move_cursor(row=names.index(chosen), scroll=False)
            table.scroll_to(at.x, at.y, animate=False)

    def _show_panel(self) -> None:
        panel = self.query_one("#panel", Static)
        details = self.top.details_of(self.chosen())
        panel.display = self.size.height >= PANEL_FROM and bool(self.chosen())
        snapshot, fault = self.top.known(self.chosen())
        name = shown(words.cut(self.chosen()))
        if fault:
            panel.update(Text(f"{name} cannot be read: {shown(fault)}"))
        elif details:
            told = told_of(details, snapshot and snapshot.verdict, self.top.now_ms())
            panel.update(Text(f"{name}: {told}", no_wrap=True, overflow="ellipsis"))
        else:
            panel.update(Text(name))


class Queue(_Screen):
    """One queue: its tasks and rates, closed groups, next tasks, workers and last events."""

    CSS = """
    #line { height: 1; color: $text-muted; padding: 0 1; }
    #line.bad { background: $error; color: $text; }
    #title { text-style: bold; padding: 0 1; }
    .part { padding: 0 1; margin-top: 1; height: auto; }
    #events { text-wrap: nowrap; text-overflow: ellipsis; }
    #backlog { height: 3; margin: 1 1 0 1; }
    #groups { height: auto; max-height: 12; margin: 1 1 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", "Back"),
        *ACTS,
    ]

    def __init__(self, name: str) -> None:
        """Show the queue of a name."""
        super().__init__()
        self._queue = name
        self._groups: list[str] = []

    def compose(self) -> ComposeResult:
        """Lay out the parts one below the other; in a small terminal they scroll."""
        yield Static(id="line")
        yield Static(Text(shown(self._queue)), id="title")
        with VerticalScroll(can_focus=False):
            yield Static(id="counts", classes="part")
            yield Sparkline([], id="backlog")
            yield Static(id="drain", classes="part")
            table = Rows(id="groups", cursor_type="row")
            for title, width in [("closed group", words.NARROW), ("why", 22), ("opens", 12)]:
                table.add_column(title, width=width)
            table.add_column("waiting", width=7)
            yield table
            yield Static(id="workers", classes="part")
            yield Static(id="events", classes="part")
        yield Footer(show_command_palette=False)

    def chosen(self) -> str:
        """Return the name of the queue."""
        return self._queue

    def to_read(self) -> list[str]:
        """Return the name of the queue, since no other queue is read."""
        return [self._queue]

    def group(self) -> str:
        """Return the closed group under the cursor."""
        row = self.query_one("#groups", DataTable).cursor_row
        return self._groups[row] if 0 <= row < len(self._groups) else ""

    def action_back(self) -> None:
        """Go back to all queues."""
        self.dismiss()

    def show(self) -> None:
        """Show the last snapshot and the details of the queue."""
        self.say_fault()
        snapshot, fault = self.top.known(self._queue)
        now = self.top.now_ms()
        gone = self.top.round.names is not None and self._queue not in self.top.round.names
        if fault or gone:
            self._part("counts", f"It cannot be read: {shown(fault)}" if fault else "It is gone.")
        if snapshot is None:
            return
        self._part("counts", f"{words.verdict(snapshot.verdict)}\n{words.counts(snapshot)}")
        backlog = [float(sample.backlog) for sample in snapshot.samples]
        self.query_one("#backlog", Sparkline).data = backlog
        found = working([snapshot])
        said = [words.worker(each) for each in found[:10]]
        said += [f"and {len(found) - 10} more"] if found[10:] else []
        self._part("workers", "\n".join(["workers:", *said]) if said else "no workers")
        details = self.top.details_of(self._queue)
        if details:
            self._part("drain", f"drain: {say_drain(details.drain)}")
            self._show_groups(details, now)
            events = [words.happened(event, now) for event in details.events]
            self._part("events", "\n".join(["happened:", *events]) if events else "")

    def _part(self, name: str, text: str) -> None:
        self.query_one(f"#{name}", Static).update(Text(text, no_wrap=True, overflow="ellipsis"))

    def _show_groups(self, details: Details, now_ms: float) -> None:
        table = self.query_one("#groups", Rows)
        groups = [str(each.group) for each in details.closed]
        if groups != self._groups:
            chosen = self.group()
            table.clear()
            for group in groups:
                table.add_row(Text(shown(words.cut(group, words.NARROW))), *[Text("")] * 3)
            self._groups = groups
            if chosen in groups:
                table.move_cursor(row=groups.index(chosen))
        for row, each in enumerate(details.closed):
            shown_as = (why(each), words.opens(each, now_ms), words.count(each.waiting))
            for column, text in enumerate(shown_as, 1):
                table.update_cell_at((row, column), Text(text))  # type: ignore[arg-type]
        table.display = bool(groups)
