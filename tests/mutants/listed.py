"""The mutants: changes that break what the documents promise, and the tests that should see it.

They are spread over all parts of DPQ, in Python and in Lua. Their texts are short, so that they
stay where they are while code moves; when one is not found, test_listed.py names it: write it anew,
or take another of the same promise. A mutant that changes nothing says why in `same`.
"""

from dataclasses import dataclass

from mutants.mutant import Change


@dataclass(frozen=True, kw_only=True)
class Mutant(Change):
    """A change, and who should notice.

    Attributes:
        tests: Arguments of pytest: a cheap choice, one of which must fail.
        same: Why nobody can notice, if that is so.
    """

    tests: tuple[str, ...]
    same: str = ""


def _lua(name: str, script: str, old: str, new: str, *tests: str) -> Mutant:
    file = f"dpq/protocol/lua/{script}.lua"
    return Mutant(name=name, file=file, old=old, new=new, tests=tests)


def _py(name: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    file = f"dpq/{module}.py"
    return Mutant(name=name, file=file, old=old, new=new, tests=tests)


LUA, UNIT, CONTRACT, DAEMON = (
    "tests/lua/test_",
    "tests/unit/test_",
    "tests/contract/test_",
    "tests/daemon/test_",
)
WORKER, ASYNC = f"{CONTRACT}worker.py", f"{CONTRACT}worker_async.py"
THREADS = f"{CONTRACT}worker_threads.py"
CLI = f"{DAEMON}cli.py"
WEB = "tests/web/test_web_"

ORDER = [
    _lua(
        "FIFO is LIFO and the other way round",
        "push",
        "lifo and 999999999999999 - place or place",
        "lifo and place or 999999999999999 - place",
        f"{CONTRACT}order.py",
    ),
    _lua(
        "what comes back in a LIFO queue gets a FIFO place",
        "lib/anew",
        "place = 999999999999999 - place",
        "place = place + 0",
        f"{LUA}recurring.py",
        f"{LUA}ack.py",
    ),
    _py(
        "integers that no double holds are equal",
        "model/priority",
        "str(priority), _residual(int(priority))",
        "str(priority), _EXACT",
        f"{UNIT}order.py",
    ),
    _py(
        "what a double loses sorts the wrong way",
        "model/priority",
        "{999 - lost:03d}",
        "{lost:03d}",
        f"{UNIT}order.py",
    ),
    _lua(
        "aging begins at the push, due or not",
        "lib/groups",
        "task.enqueued + task.wait - since",
        "task.enqueued - since",
        f"{LUA}pop.py",
    ),
    _lua(
        "raise_priority lowers as well",
        "push/merge",
        "new > old or new == old",
        "new ~= old or new == old",
        f"{LUA}push.py",
    ),
    _lua(
        "tasks without a group take no turns",
        "push",
        "settings[5] == 'round_robin' or settings[7]",
        "settings[7]",
        f"{LUA}round_robin.py",
    ),
    _lua(
        "a release takes another place",
        "release",
        "task.delivery = 'r'\n",
        "task.delivery = 'r'\ntask.order = string.sub(task.order, 1, -16) .. '999999999999990'\n",
        f"{CONTRACT}order.py",
    ),
]
FENCING = [
    _lua(
        "any token acks",
        "ack",
        "token ~= claim and token ~= string.match(claim, '^%d+')",
        "not token",
        f"{LUA}refused.py",
    ),
    _lua(
        "any token acts",
        "lib/fence",
        "task.token ~= token",
        "false",
        f"{LUA}refused.py",
    ),
    _lua(
        "a settled delivery acts again",
        "lib/fence",
        "'[fbr]'",
        "'[0]'",
        f"{LUA}refused.py",
    ),
    _lua(
        "the holder of a dead task may act on it",
        "lib/fence",
        " or redis.call('ZSCORE', dead, id) then",
        " then",
        f"{LUA}refused.py",
    ),
    _lua(
        "tokens go back with the clock",
        "pop",
        "last and last > token and last < 9e15 and last or token",
        "token",
        f"{LUA}pop.py",
    ),
]
LEASES = [
    _py(
        "leases are extended at 95 % of their time",
        "queue/lease_renewal",
        "now + self.seconds / 3",
        "now + self.seconds * 0.95",
        f"{CONTRACT}extensions.py::test_a_lease_outlives_an_extension_that_is_lost",
    ),
    _py(
        "let_go does not wait for an extension on its way",
        "queue/lease_renewal",
        "            with self._beat:\n                pass\n",
        "            pass\n",
        f"{CONTRACT}extensions.py::test_an_extension_on_its_way_undoes_nothing",
    ),
    _py(
        "end does not wait for an extension on its way",
        "queue/lease_renewal_async",
        "            await asyncio.shield(self._beat)\n",
        "            pass\n",
        f"{CONTRACT}async.py::test_a_slow_extension_does_not_undo_a_settling",
    ),
    _py(
        "a lease whose work has ended is extended no more",
        "queue/lease_renewal",
        "        self._ending[key] = lease\n",
        "",
        f"{CONTRACT}worker_refused.py::test_a_lease_is_extended_until_its_end_is_answered",
    ),
    _py(
        "a loop that is left early acks its task",
        "queue/lease_loops",
        "Leases.let_go(self._queue._leases, task)",
        "self._queue.ack(task)",
        f"{CONTRACT}leases.py::test_a_loop_that_is_left_early_acks_nothing",
    ),
    _lua(
        "a task has no lease of its own",
        "pop/lease",
        "if own > 0 and own <= 315360000000 then",
        "if false then",
        f"{LUA}options.py",
    ),
    _lua(
        "the options of a task are lost when it comes back",
        "lib/record",
        ".. task.options .. task.schedule",
        ".. task.schedule",
        f"{LUA}options.py",
    ),
    _lua(
        "an update by key leaves the old options",
        "push/merge",
        "task.options = options ..",
        "task.options = task.options ..",
        f"{LUA}options.py",
    ),
    _py(
        "a Release is a failed attempt",
        "operations/queue",
        "return self.release(task, error.delay, None, cost)",
        "return self.fail(task, error, error.delay)",
        f"{WORKER}::test_release_gives_back_uncounted",
    ),
    _py(
        "a fault of a validator buries its task",
        "protocol/records",
        "        return None, error\n",
        "        raise PayloadError(str(error), task_id=task_id) from error\n",
        f"{CONTRACT}interrupted.py::test_a_validator_with_a_fault_costs_attempts",
    ),
    _py(
        "an interrupted connection is kept with its reply under way",
        "transport/connections",
        "        except BaseException as error:  # replies may still come\n"
        "            connection.disconnect()\n",
        "        except BaseException as error:\n            self._idle.kept.append(connection)\n",
        f"{CONTRACT}interrupted.py::test_an_interruption_spoils_nothing",
    ),
    _py(
        "redis-py keeps an interrupted connection with its reply under way",
        "transport/cluster",
        "    except BaseException as error:\n        close_idle(client)\n",
        "    except BaseException as error:\n",
        f"{CONTRACT}interrupted.py::test_a_reply_under_way_is_for_no_other_call",
    ),
    _py(
        "redis-py keeps an interrupted connection with its reply under way, in asyncio",
        "transport/cluster",
        "    except BaseException as error:\n        await close_idle_async(client)\n",
        "    except BaseException as error:\n",
        f"{CONTRACT}interrupted.py::test_a_reply_under_way_is_for_no_other_call_in_the_loop",
    ),
    _py(
        "nobody is told that a lease is lost",
        "queue/lease_renewal",
        "if lease.lost:",
        "if False:",
        f"{WORKER}::test_a_handler_is_told_that_its_lease_is_lost",
        f"{ASYNC}::test_a_lost_lease_cancels_its_handler",
    ),
    _lua(
        "the end of a lease costs no attempt",
        "lib/upkeep",
        "task.attempts = task.attempts + 1",
        "task.attempts = task.attempts",
        f"{LUA}promote.py",
        f"{LUA}pop.py",
    ),
    _lua(
        "the end of a lease is never the last attempt",
        "lib/upkeep",
        "tonumber(task.attempts) >= tonumber(task.max)",
        "false",
        f"{LUA}promote.py",
        f"{LUA}pop.py",
    ),
    _lua(
        "a lease that ran out is extended in two places",
        "extend",
        "if not redis.call('ZSCORE', invisible, id) then",
        "if false then",
        f"{LUA}extend.py",
    ),
    _lua(
        "set_visibility costs an attempt",
        "set_visibility",
        "  task.deferrals =",
        "  task.attempts = task.attempts + 1\n  task.deferrals =",
        f"{LUA}set_visibility.py",
    ),
    _lua(
        "set_visibility hides for half of the time",
        "set_visibility",
        "tonumber(ARGV[4])",
        "tonumber(ARGV[4]) / 2",
        f"{LUA}set_visibility.py",
    ),
    _py(
        "the backoff has no cap",
        "model/backoff",
        "min(self.cap, self.base * self.factor ** (attempt - 1))",
        "self.base * self.factor ** (attempt - 1)",
        f"{UNIT}policy.py",
    ),
    _lua(
        "a task that was started in time expires later",
        "pop/apart",
        "deliveries == '0' and expires or '0', group",
        "expires, group",
        f"{LUA}pop.py",
        f"{LUA}promote.py",
    ),
    _lua(
        "an heir never joins the tasks that a batch has in hand",
        "pop/step_up",
        "if score < last or score == last and member < popped[#popped - 1] then",
        "if false then",
        f"{LUA}pop.py",
    ),
]
LIMITS = [
    _lua(
        "a gate that holds only grants owes nothing",
        "lib/plain_gate",
        "owed = paid,",
        "owed = 0,",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "a window clearly lets run what it does not",
        "lib/opens",
        "+ 0.001 > instant",
        "+ 0.001 > instant + 1000",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "a window grants one unit more",
        "lib/opens",
        "- rule.burst, window)",
        "- rule.burst - 1, window)",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "a task of any cost pays for one",
        "pop/judge",
        "+ time_of(units, window)",
        "+ time_of(1, window)",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "one lease more than the concurrency",
        "lib/gate",
        "return most <= out",
        "return most < out",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "a tighter limit is bounded when somebody looks",
        "set_limit",
        "    gate_of('') -- bound",
        "    -- bound",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "a closing bounds what was granted before it",
        "lib/gate",
        "  return instant + reach_of(",
        "  return math.max(instant, gate.opens) + reach_of(",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "idle time is credited a second time",
        "lib/give_back",
        "back = pair.token > token and math.min(back, pair.slack) or back",
        "back = pair.token > token and math.max(back, pair.slack) or back",
        f"{LUA}true_up.py",
    ),
    _lua(
        "what is given back leaves the slack of later grants",
        "lib/give_back",
        "pair.token > token and pair.slack - back or pair.slack",
        "pair.slack",
        f"{LUA}true_up.py",
    ),
    _lua(
        "the larger slack of two pairs is kept",
        "lib/refunds",
        "known[closest + 1].slack = known[closest].slack",
        "known[closest].slack = known[closest + 1].slack",
        f"{LUA}true_up.py",
    ),
    _lua(
        "what other rules have charged is given back",
        "lib/refunds",
        "if not known or window.interval > known.interval or window.most > known.most then",
        "if not known then",
        f"{LUA}true_up.py",
    ),
    _lua(
        "a unit may be told twice",
        "lib/true_up",
        "string.find(',' .. (known or ''), ',' .. unit .. '=', 1, true)",
        "string.find(',' .. (known or ''), ',' .. unit .. '==', 1, true)",
        f"{LUA}true_up.py",
    ),
    _lua(
        "a 429 counts as a value of the estimate",
        "rate_limited",
        "told = true_up(task, nothing_of(reserved_of(task)), true) or is_told",
        "told = true_up(task, nothing_of(reserved_of(task))) or is_told",
        f"{LUA}true_up.py",
    ),
    _lua(
        "an estimate is named",
        "lib/estimate",
        "text .. string.format(',%s~%.0f'",
        "text .. string.format(',%s=%.0f'",
        f"{LUA}true_up.py",
    ),
    _lua(
        "a look takes slack back",
        "lib/pace",
        "rule.per + slack + time_of(",
        "rule.per + time_of(",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "opening by hand leaves what a 429 has added",
        "delay_group",
        "window.owed = window.paid",
        "window.owed = window.owed",
        f"{LUA}delay_group.py",
    ),
    _lua(
        "a 429 shortens a longer closing",
        "lib/met",
        "math.max(gate.opens, now + ms)",
        "now + ms",
        f"{LUA}rate_limited.py",
    ),
    _lua(
        "a 429 of the queue closes the group only",
        "rate_limited",
        "local closes = scope == 'queue' and '' or task.group",
        "local closes = task.group",
        f"{LUA}rate_limited.py",
    ),
    _lua(
        "a quota grants one unit more",
        "lib/quota",
        "if quota.count + units > rule.amount then",
        "if quota.count + units > rule.amount + 1 then",
        f"{LUA}quotas.py",
    ),
    _lua(
        "an overlapping period begins anew",
        "lib/quota",
        "if start < quota.reset then",
        "if false then",
        f"{LUA}quotas.py",
    ),
    _lua(
        "a day ends by the offset of its begin",
        "lib/period",
        "local start, reset = first_at(wall), first_at(next_wall)",
        "local start = first_at(wall); local reset = start + next_wall - wall",
        f"{LUA}quotas.py",
    ),
    _lua(
        "a leap day is forgotten",
        "lib/period",
        "math.floor(of_era / 1460)",
        "math.floor(of_era / 146000)",
        f"{LUA}quotas.py",
    ),
    _lua(
        "a spread quota is not paced",
        "lib/quota",
        "local may = rule.spread and quota.next or 0",
        "local may = 0",
        f"{LUA}quotas.py",
    ),
    _py(
        "a quota knows no later clock changes",
        "model/zones",
        "changes.append((late, offset(late)))",
        "pass",
        f"{LUA}quotas.py",
    ),
    _lua(
        "what is under way is forgotten",
        "observe",
        "out * tonumber(args[i + 3])",
        "0",
        f"{LUA}observe.py",
    ),
    _lua(
        "an older answer raises what is left",
        "lib/observed",
        "known.left = math.min(known.left, left)",
        "known.left = left",
        f"{LUA}observe.py",
    ),
    _lua(
        "a budget is not charged",
        "pop/judge",
        "math.max(0, budget.left - units)",
        "budget.left",
        f"{LUA}observe.py",
    ),
    _lua(
        "a budget of a group without a limit is pruned",
        "pop/limited",
        "ends <= instant and",
        "true and",
        f"{LUA}observe.py",
    ),
    _py(
        "a worker tells no budgets",
        "worker/outcomes",
        "return told + together + others",
        "return together + others",
        "tests/contract/test_observe.py",
    ),
    _lua(
        "a reserve is for all",
        "lib/opens",
        "if grown > 0 then",
        "if false then",
        f"{LUA}pop_limits.py",
    ),
    _py(
        "a window that is no whole ms is shortened",
        "model/limits",
        "math.ceil(float(",
        "math.floor(float(",
        f"{UNIT}limits.py",
    ),
    _lua(
        "a group's own limit is none",
        "lib/gate",
        "seen.count > (rules and 1 or 0) and rules_of",
        "false and rules_of",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "a looser limit wakes nobody",
        "set_limit",
        "  redis.call('ZADD', wake, '0', 'w')\n",
        "",
        f"{LUA}set_limit.py",
        f"{CONTRACT}waiting_limits.py::test_a_looser_limit_wakes",
    ),
    _lua(
        "resume leaves the queue closed by a 429",
        "pause",
        "if paid then",
        "if false then",
        f"{LUA}pause.py",
    ),
]
ADAPTIVE = [
    _lua("a 429 teaches nothing", "lib/met", "gate.rate / 2", "gate.rate", f"{LUA}adaptive.py"),
    _lua(
        "one closing halves a rate again and again",
        "lib/met",
        "if instant < gate.since then",
        "if false then",
        f"{LUA}adaptive.py",
    ),
    _lua(
        "a rate rises though nobody uses it",
        "pop/judge",
        "gate.used * 2 >= gate.rate",
        "true",
        f"{LUA}adaptive.py",
    ),
    _lua(
        "the rate that met the last 429 is forgotten",
        "pop/judge",
        "rules.step, gate.learned",
        "rules.step, 0",
        f"{LUA}adaptive.py",
    ),
    _lua(
        "a 429 after a raise halves the rate",
        "lib/met",
        "clean > 0 and clean * 0.9375 or ",
        "",
        f"{LUA}adaptive.py",
    ),
]
MEMORY = [
    _lua(
        "a pop that has upkeep to do is refused at full memory",
        "pop",
        "  go_on()\n  moved = upkeep",
        "  moved = upkeep",
        f"{LUA}full_memory.py::test_goes_on",
    ),
    _lua(
        "leases cannot be extended at full memory",
        "extend",
        "go_on()\n",
        "",
        f"{LUA}full_memory.py::test_goes_on",
    ),
    _lua(
        "a group cannot be closed at full memory",
        "delay_group",
        "go_on()\n",
        "",
        f"{LUA}full_memory.py::test_goes_on",
    ),
    _lua(
        "upkeep is refused at full memory",
        "promote",
        "go_on()\n",
        "",
        f"{LUA}full_memory.py::test_goes_on",
    ),
]
SETTINGS = [
    *(
        _lua(
            f"a {verb} goes into a queue of another format",
            verb,
            ")\nif refused then",
            ")\nif refused and refused[1] ~= -8 then",
            f"{LUA}format.py",
            f"{CONTRACT}worker_refused.py::test_a_worker_of_a_queue_that_a_newer_dpq_took_over",
        )
        for verb in ("push", "pop", "promote")
    ),
    _lua(
        "what has lost its settings or the queue's limit runs",
        "pop",
        "if not format and redis.call('EXISTS', meta) == 1 or noted and",
        "if false and",
        f"{LUA}settings_lost.py",
    ),
    _lua(
        "groups that have lost their limits run",
        "pop",
        "redis.call('HLEN', limits) < tonumber(string.match(noted, '%d+'))",
        "false",
        f"{LUA}settings_lost.py",
    ),
    _lua(
        "a lost note of the limits opens them",
        "pop",
        "  or settings[3] and string.match(settings[3], '^(q?%d+)=$')\n",
        "",
        f"{LUA}settings_lost.py",
    ),
    _lua(
        "a lost note of the limits forgets what they have granted",
        "lib/gate",
        "or string.match(gated or '', '^(q?%d+)=$')",
        "",
        f"{LUA}limits_lost.py",
    ),
    _lua(
        "a closed group hides the second note of the limits",
        "lib/mark",
        "if redis.call('HEXISTS', conf, 'gated') == 0 then",
        "if true then",
        f"{LUA}settings_lost.py",
    ),
    _lua(
        "the last gate that goes takes the second note of the limits with it",
        "lib/prune",
        "string.byte(gated, -1) ~= 61",
        "true",
        f"{LUA}settings_lost.py",
    ),
    _lua(
        "lost settings do not come back",
        "lib/restore",
        "  if lost[1] then\n",
        "  if false then\n",
        f"{LUA}settings_lost.py",
        f"{LUA}configure.py",
    ),
    _lua(
        "lost limits of groups do not come back",
        "configure",
        "if create == '2' then",
        "if false then",
        f"{LUA}settings_lost.py",
    ),
    _lua(
        "rules that cannot be read grant all",
        "lib/opens",
        "  if gate.rules.unreadable then",
        "  if false then",
        f"{LUA}settings_lost.py",
    ),
    _lua(
        "what was granted and cannot be read was nothing",
        "lib/gate",
        "if spent or not window.paid then",
        "if not window.paid then",
        f"{LUA}settings_lost.py",
    ),
]
SLACK = [
    _lua(
        "slack widens no window",
        "lib/pace",
        "(rule.per + (rule.slack or learned_slack or 0))",
        "rule.per",
        f"{LUA}slack.py",
    ),
    _lua(
        "a learned slack stays for ever",
        "lib/pace",
        "2 ^ ((beside - instant) / HALF_MS)",
        "1",
        f"{LUA}slack.py",
    ),
    _lua(
        "the 429 of a probe teaches slack",
        "lib/met",
        "counts and not was_probe and granted",
        "counts and granted",
        f"{LUA}slack.py",
    ),
    _lua(
        "a 429 of before the last lesson teaches slack",
        "lib/met",
        "granted > gate.beside",
        "true",
        f"{LUA}slack.py",
    ),
    _py(
        "a rate said as text loses its slack",
        "model/limits",
        "reserve=reserve, slack=slack\n",
        "reserve=reserve\n",
        f"{UNIT}limits.py",
    ),
]
GROUPS = [
    _lua(
        "a popped head has no heir",
        "pop/take",
        "if may and crown and group and",
        "if false and group and",
        f"{LUA}pop.py",
    ),
    _lua(
        "a better newcomer waits behind the head",
        "lib/place",
        "best and (score < best or score == best and member < first)",
        "false",
        f"{LUA}push.py",
    ),
    _lua(
        "a closed group lets a newcomer lead",
        "lib/place",
        "best or redis.call('ZSCORE', closed, group)",
        "best",
        f"{LUA}delay_group.py",
        f"{LUA}push.py",
    ),
    _lua(
        "closing by hand never shortens",
        "delay_group",
        "UNTIL_OPENED or now + ms, 'h'",
        "UNTIL_OPENED or math.max(gate.opens, now + ms), 'h'",
        f"{LUA}delay_group.py",
    ),
]
POOLS = [
    _lua(
        "the member that was granted last goes first",
        "lib/pool",
        "best.last <= mate.last",
        "best.last > mate.last",
        f"{LUA}pools.py",
    ),
    _lua(
        "a member of a pool is never full",
        "lib/pool",
        "full(mate) then",
        "false then",
        f"{LUA}pools.py",
    ),
    _lua(
        "a pinned task runs as any member of its pool",
        "lib/pool",
        "(not pin or pin == name) and",
        "true and",
        f"{LUA}pools.py",
    ),
    _lua(
        "the end of a lease frees no member of a pool",
        "lib/place",
        "lapsed, live_note(task, '\\28'))",
        "lapsed)",
        f"{LUA}pools.py",
    ),
    _lua(
        "an ack frees no member of a pool",
        "ack",
        "ended(id, group, false, string.match(raw, '^[^\\n]*\\28%d+ ([^\\t\\n]*)'))",
        "ended(id, group, false)",
        f"{LUA}pools.py",
    ),
    _lua(
        "a 429 of a member of a pool closes its group",
        "rate_limited",
        "scope == 'member' and live_note",
        "false and live_note",
        f"{LUA}pools.py",
    ),
    _lua(
        "a member that leaves its pool is forgiven",
        "lib/prune",
        "until_ms = math.max(until_ms, (tonumber(per) or 0) + (tonumber(upto) or 0))",
        "until_ms = 0",
        f"{LUA}pools.py",
    ),
    _lua(
        "an idle group keeps its turns of its weight",
        "pop/judge_groups",
        "    end_turn(gate_of(group))\n    gone",
        "    gone",
        f"{LUA}weights.py",
    ),
    _lua(
        "no turn passes, whatever the weight",
        "pop/judge_groups",
        "if gate.turn < 1 and redis.call('ZCOUNT'",
        "if false and redis.call('ZCOUNT'",
        f"{LUA}weights.py",
    ),
]
DEAD = [
    _lua(
        "the dead letters have no bound",
        "lib/bury",
        "  trim(2)\n",
        "",
        f"{LUA}bury.py",
        f"{LUA}fail.py",
    ),
    _lua(
        "replayed tasks keep their spent attempts",
        "replay",
        "task.again = 0, 0, '', 0",
        "task.again = task.attempts, 0, '', 0",
        f"{LUA}replay.py",
    ),
    _lua(
        "a replay at a rate is one at once",
        "replay",
        "first + spacing * replayed",
        "first",
        f"{LUA}replay.py",
    ),
    _lua(
        "a dead letter that is dropped keeps its key",
        "lib/bury",
        "    redis.call('HDEL', keys, task.key)\n",
        "",
        f"{LUA}bury.py",
        f"{LUA}promote.py",
        f"{LUA}fail.py",
    ),
    _py(
        "dead letters of any group are meant",
        "operations/dead",
        "(group is None or task.group == group)",
        "True",
        f"{LUA}replay.py",
        f"{CONTRACT}api.py",
    ),
]
RECURRING = [
    _lua(
        "a missed time is not passed over",
        "lib/recur",
        "math.max(now, task.enqueued + task.wait)",
        "task.enqueued + task.wait",
        f"{LUA}recurring.py",
    ),
    _lua(
        "a run has no time in which it must start",
        "lib/anew",
        "expires_in == '0' and '0' or string.format('%.0f', at + expires_in)",
        "'0'",
        f"{LUA}recurring.py",
    ),
    _py(
        "cron lines are read in UTC",
        "model/schedule",
        "zone(timezone))",
        "UTC)",
        f"{UNIT}schedule.py",
    ),
    _lua(
        "a run that fails for good is the last",
        "fail",
        "if spent and task.schedule ~= '' then",
        "if false then",
        f"{LUA}recurring.py",
    ),
]
KEYS = [
    _lua(
        "a finished task keeps its key",
        "ack",
        "      redis.call('HDEL', keys, key)\n",
        "",
        f"{LUA}ack.py",
    ),
    _lua(
        "a key that is taken is no error",
        "push/claim",
        "elseif mode == 'e' then",
        "elseif false then",
        f"{LUA}push.py",
    ),
    _lua(
        "a key may go to another group",
        "push/claim",
        "elseif group ~= (",
        "elseif false and group ~= (",
        f"{LUA}push.py",
    ),
    _lua(
        "a dead holder of a key is not revived",
        "push/merge",
        "    elseif died then\n",
        "    elseif false then\n",
        f"{LUA}push.py",
    ),
    _lua(
        "an update takes a running task from its holder",
        "lib/revise",
        "local moves = not running and (",
        "local moves = (",
        f"{LUA}push.py",
        f"{LUA}update.py",
    ),
]
PARTITIONS = [
    _py(
        "a group is in all partitions",
        "protocol/placement",
        "return None if name is None else zlib.crc32(name.encode()) % count",
        "return None",
        f"{CONTRACT}partitions.py::test_a_group_stays_in_one_partition",
    ),
    _lua(
        "who counts partitions wrong is not refused",
        "lib/refusal",
        "elseif partitions ~= '0' and",
        "elseif false and",
        f"{LUA}same.py",
    ),
    _py(
        "a pop ends at the first partition that has nothing",
        "operations/pop",
        "            partitions = list(self._all)\n",
        "            partitions = []\n",
        f"{CONTRACT}partitions.py::test_a_partition_that_was_empty_is_looked_at",
        f"{CONTRACT}partitions.py::test_all_come_and_none_twice",
    ),
    _py(
        "a 429 of the queue closes one partition",
        "operations/queue",
        "            if whole:\n                yield from all_of([self._noted(part, part.close",
        "            if False:\n                yield from all_of([self._noted(part, part.close",
        f"{CONTRACT}partitions.py::test_a_429_of_the_queue_closes_all_partitions",
    ),
]
WORKERS = [
    _py(
        "what was fetched ahead of a 429 runs all the same",
        "worker/fetcher",
        "if self._prefetch and isinstance(done.error, RateLimited):",
        "if False:",
        f"{CONTRACT}worker_ends.py::test_what_was_fetched_under_the_same_limit_goes_back",
    ),
    _py(
        "a worker that ends waits for nobody",
        "worker/worker",
        "give_up = time.monotonic() + self.grace",
        "give_up = time.monotonic()",
        f"{WORKER}::test_a_stop_waits_for_handlers",
    ),
    _py(
        "a time limit is none",
        "worker/overdue",
        "(limit := run.limit) is not None and run.began + limit <= now",
        "(limit := run.limit) is not None and not now",
        f"{THREADS}::test_a_time_limit",
    ),
    _py(
        "a task has no time limit of its own",
        "worker/runner",
        "task.time_limit or calls.time_limit",
        "calls.time_limit",
        f"{WORKER}::test_a_task_has_a_time_limit_of_its_own",
    ),
    _py(
        "acks wait behind a pop that was refused",
        "worker/fetcher",
        "        answered = True\n",
        "        answered = False\n",
        f"{CONTRACT}worker_refused.py::test_what_has_ended_does_not_wait_for_a_pop",
    ),
    _py(
        "acks of an async worker wait behind a pop that was refused",
        "worker/fetcher_async",
        "        answered = True\n",
        "        answered = False\n",
        ASYNC,
    ),
    _py(
        "children run files of the current directory",
        "cli/_processes",
        '[sys.executable, "-P", "-m", "dpq"]',
        '[sys.executable, "-m", "dpq"]',
        f"{DAEMON}cli_worker.py::test_files_of_the_current_directory_are_not_run_instead",
    ),
    _py(
        "weights are none",
        "worker/queue_order",
        "max(1, tasks) / self._weights[queue_index]",
        "max(1, tasks)",
        f"{UNIT}work.py",
    ),
    _py(
        "a drain leaves what is delayed",
        "worker/fetch_plan",
        "count.ready + count.delayed + count.invisible",
        "count.ready + count.invisible",
        f"{WORKER}::test_drain_waits_for_delayed_and_failing_tasks",
    ),
    _py(
        "an unknown name is tried again and again",
        "worker/handlers",
        'raise Reject(f"unknown task {name!r}")',
        'raise ValueError(f"unknown task {name!r}")',
        f"{UNIT}work.py",
        f"{WORKER}::test_handlers_by_name",
    ),
    _py(
        "one handler more than the concurrency",
        "worker/runner_async",
        "len(self._running) < self._concurrency and",
        "len(self._running) <= self._concurrency and",
        f"{ASYNC}::test_no_more_handlers_run_than_may",
    ),
    _py(
        "a lost lease cancels nothing",
        "worker/runner_async",
        "    context._lose()\n    handling.cancel()\n",
        "    context._lose()\n",
        f"{ASYNC}::test_a_lost_lease_cancels_its_handler",
    ),
    _py(
        "two threads ask for tasks at once",
        "worker/fetcher",
        "if self._look and not asking:",
        "if self._look:",
        f"{UNIT}fetcher.py",
    ),
    _py(
        "an end that an exchange could not send is forgotten",
        "worker/fetcher",
        "            self.ends += exchange.done\n",
        "            pass\n",
        f"{UNIT}fetcher.py",
    ),
    _py(
        "an end that asyncio could not send is forgotten",
        "worker/fetcher_async",
        "            self.ends += again\n",
        "            pass\n",
        f"{UNIT}fetcher.py",
    ),
    _py(
        "a busy worker keeps the wake-ups of its other queues",
        "worker/fetcher",
        "            wakeups.stop(owed)\n",
        "            wakeups.stop([])\n",
        f"{UNIT}fetcher.py",
    ),
    _py(
        "an overdue attempt ends as its handler does",
        "worker/runner",
        "        error = run.overdue or error\n",
        "        pass\n",
        f"{UNIT}runner.py",
    ),
    _py(
        "an end is handed over though another caller has ended the delivery",
        "worker/runner_async",
        "        if held:  # else",
        "        if True:  # else",
        f"{UNIT}runner.py",
    ),
    _py(
        "an async worker takes a 429 for its task only",
        "worker/fetcher_async",
        "if isinstance(done.error, RateLimited):",
        "if False:",
        ASYNC,
    ),
]
SCHEDULER = [
    _py(
        "the scheduler keeps a name whose queue is gone",
        "scheduler",
        "if gone and self._named is None:",
        "if gone and self._named:",
        f"{DAEMON}scheduler.py::test_a_queue_that_is_gone_is_let_go",
    ),
    _py(
        "the scheduler sleeps until the last of its queues' events",
        "scheduler",
        'return self._heap[0][0] if self._heap else float("inf")',
        "return max([m for m in self._of.values() if m < 1e300], default=1e300)",
        f"{DAEMON}scheduler.py::test_the_first_event_of_all_queues",
    ),
    _py(
        "a master that is away stops the queues of the others",
        "scheduler",
        "if not answered and (fault := fault or away):",
        "if fault := fault or away:",
        f"{DAEMON}scheduler.py::test_a_master_that_is_away_hinders_no_queue_elsewhere",
    ),
    _py(
        "a master that is away is the whole cluster",
        "scheduler",
        "(not clustered or self._away.issuperset(self._queues))",
        "True",
        f"{DAEMON}scheduler.py::test_a_master_that_is_away_is_not_the_server",
    ),
    _py(
        "a server is back that nobody has asked",
        "scheduler",
        "answered = self._round()",
        "answered = self._round() or True",
        f"{DAEMON}scheduler.py::test_reconnects",
    ),
    _py(
        "a glance does not look at moments",
        "scheduler",
        "default=math.inf)\n                self",
        "default=math.inf) + 1e6\n                self",
        f"{DAEMON}scheduler_idle.py::test_an_event_that_no_marker_says",
    ),
    _py(
        "a daemon without markers steps each queue at each look",
        "scheduler",
        "        if self._glances and not pruned:\n",
        "        if False:\n",
        f"{DAEMON}scheduler_idle.py::test_at_rest_it_sends_glances",
    ),
    _py(
        "the block of a waiter ends with each look",
        "transport/waiter",
        "return longest if nodes.direct and left > SHORT_SECONDS else min(left, longest)",
        "return min(left, longest)",
        f"{CONTRACT}waiting.py::test_the_looks_of_an_idle_waiter_cost_one_command_each",
        f"{UNIT}waiter.py",
    ),
    _lua(
        "a moment between two looks has no watcher",
        "lib/notice",
        "moment < now + 10000 and",
        "moment < now + 5000 and",
        f"{LUA}recheck.py",
    ),
    _lua(
        "a glance says nothing is to come",
        "glance",
        "elseif soonest then",
        "elseif false then",
        f"{LUA}glance.py",
        f"{DAEMON}scheduler_idle.py::test_a_lost_marker_costs_a_glance",
    ),
    _py(
        "names that are new are not seen",
        "scheduler",
        "found = self._names.look(self._queues, full",
        "found = [] if self._queues else self._names.look(self._queues, full",
        f"{DAEMON}scheduler.py::test_new_queues_are_picked_up",
    ),
    _py(
        "a marker with many members wakes the scheduler for each",
        "scheduler",
        "if self._pace.again(key, now):",
        "if False:",
        f"{DAEMON}scheduler.py::test_a_flood_of_wake_ups",
    ),
    _py(
        "wake-ups have no rate",
        "scheduler",
        "return max(0.0, -self._credit / WAKES_PER_SECOND)",
        "return 0.0",
        f"{DAEMON}scheduler.py::test_wake_ups_have_a_rate",
    ),
    _py(
        "all names are looked at before queues have their turn",
        "scheduler",
        "while looked < NAMES_A_LOOK:",
        "while True:",
        f"{DAEMON}scheduler.py::test_junk_that_may_not_be_removed_starves_nobody",
    ),
    _py(
        "names without a queue stay",
        "queue/registry",
        '            yield makes._command("unregister", [name], same)\n',
        "            pass\n",
        f"{DAEMON}scheduler.py::test_names_without_a_queue_are_taken_out",
    ),
    _py(
        "who may not send scripts loads none",
        "transport/connections",
        "            load_instead(self._client)\n",
        "            pass\n",
        "tests/security/test_acl.py::test_scripts_that_the_server_has_forgotten",
    ),
    _py(
        "who may not send scripts loads none, in asyncio",
        "transport/connections_async",
        "            await load_instead_async(self._client)\n",
        "            pass\n",
        "tests/security/test_acl.py::test_scripts_that_the_server_has_forgotten",
    ),
    _py(
        "a queue that begins while its name is taken out is not known",
        "queue/registry",
        '        yield makes._command("register", [name], same)\n',
        "",
        f"{DAEMON}scheduler.py::test_a_queue_that_begins_while_its_name_is_taken_out",
    ),
    _py(
        "who may not write the list of names cannot push",
        "operations/base",
        'yield [self._command("register", [self.queue_name], same)]',
        'yield self._command("register", [self.queue_name], same)',
        "tests/security/test_acl.py::test_who_registers_queues",
    ),
    _py(
        "a wake-up that goes into a connection at its end is lost",
        "transport/waiter",
        "reply, self.maybe_lost = None, True",
        "reply = None",
        "tests/security/test_acl.py::test_a_wake_up_that_may_be_lost_is_handed_on",
    ),
]
COMMAND_LINE = [
    _py(
        "a pop of nothing ends with 0",
        "cli/consume",
        "raise Failed(_why_none(q))",
        "print()",
        f"{CLI}::test_pop_of_nothing_ends_with_1",
    ),
    _py(
        "an ack of what is gone says that it is done",
        "cli/consume",
        "            raise _gone(q, task_id)\n    talk",
        "            pass\n    talk",
        f"{CLI}::test_an_ack_of_what_is_gone_meanwhile_says_so",
    ),
    _py(
        "minutes are seconds",
        "model/limits",
        '"m": 60.0, "min"',
        '"m": 1.0, "min"',
        f"{UNIT}limits.py",
        f"{CLI}::test_a_rate_may_be_said_in_many_ways",
    ),
    _py(
        "deleting asks for nothing",
        "cli/change",
        "    if not yes:\n",
        "    if False:\n",
        f"{CLI}::test_wrong_usage",
    ),
]
DURABILITY = [
    _py(
        "what no replica has confirmed is taken for confirmed",
        "protocol/confirmation",
        "return None if confirmed else Unconfirmed(None, durability)",
        "return None",
        "tests/durability/test_durable.py::test_what_is_not_confirmed_says_what_was_done",
    ),
    _py(
        "a call waits for no replica",
        "protocol/confirmation",
        '("WAIT", 1, milliseconds)',
        '("WAIT", 0, milliseconds)',
        "tests/durability/test_durable.py::test_without_a_replica_nothing_is_confirmed",
        "tests/durability/test_durable.py::test_what_is_not_confirmed_says_what_was_done",
    ),
    _py(
        "a call that changes nothing asks for nothing",
        "protocol/confirmation",
        '("HINCRBY", beside(command.keys[0], "stats"), "pushed", 0)',
        '("PING",)',
        "tests/durability/test_durable.py::test_without_its_write_nothing_is_confirmed",
        "tests/durability/test_durable.py::test_the_same_call_again_asks_once_more",
    ),
    _py(
        "a call with an unknown script waits twice",
        "transport/resending",
        "self._own_tries, self._mark = 0, self.reply",
        "self._mark = self.reply",
        "tests/durability/test_durable.py::test_a_call_waits_in_vain_once",
        "tests/unit/test_confirmation.py::test_what_is_sent_again",
    ),
    _py(
        "what the client sends counts as confirmed",
        "transport/resending",
        "            return self._mark.mark(self.reply)\n",
        "            return self.reply\n",
        "tests/durability/test_durable.py::test_what_the_client_sends_is_not_confirmed",
    ),
    _py(
        "in asyncio a client without retries sends twice",
        "transport/endpoint_async",
        "            if not self._nodes.sends_once:\n",
        "            if self._nodes:\n",
        f"{CONTRACT}async.py",
    ),
    _py(
        "a write to a connection that uvloop has closed ends the worker",
        "transport/cluster",
        "        if _NOT_WRITTEN not in str(error):\n            raise\n",
        "        raise\n",
        f"{CONTRACT}worker_async.py::test_a_worker_outlives_cuts_at_any_command",
    ),
    _py(
        "a command that was not written is not repeated",
        "transport/cluster",
        "except (ClusterError, NotWrittenError):",
        "except ClusterError:",
        f"{CONTRACT}worker_async.py::test_a_worker_outlives_cuts_at_any_command",
    ),
    _py(
        "a waiter hangs up a connection that is cut",
        "transport/waiter_async",
        "                if self._reading.done():  # perhaps",
        "                if not self._reading:  # perhaps",
        f"{CONTRACT}async.py::test_a_cut_waiter_of_a_user_who_may_not_unblock",
    ),
    _py(
        "a connection is closed before its reader has begun",
        "transport/endpoint_async",
        "            await asyncio.sleep(0)  # a reader",
        "            # a reader",
        f"{CONTRACT}async.py::test_a_connection_is_closed_before_it_was_used",
    ),
]
EDGES = [
    _py(
        "a password with an @ in it is shown",
        "model/masking",
        'shown += parts["server"]\n',
        'shown += url.split("?")[0].partition("@")[2] or parts["server"]\n',
        f"{UNIT}connect.py::test_a_masked_url_shows_all_but_the_password",
    ),
    _py(
        "secret parameters are shown",
        "model/masking",
        'return f"{name}=***" if name in _SECRET_NAMES else "***"',
        "return text",
        f"{UNIT}connect.py::test_a_masked_url_shows_all_but_the_password",
    ),
    _py(
        "a terminal can be steered",
        "model/display",
        r"\x0b-\x1f\x7f",
        r"\x0b-\x1a\x1c-\x1f\x7f",
        f"{UNIT}shown.py",
        f"{DAEMON}cli_shown.py",
    ),
    _py(
        "others can read what an embedded server stores",
        "server/supervisor",
        "    os.umask(0o077)",
        "    os.umask(0o022)",
        f"{DAEMON}server.py::test_nobody_else_can_read_what_is_stored",
    ),
    _py(
        "a header closes for as long as it likes",
        "model/rate_headers",
        "min(wait, MAX_RETRY_AFTER)",
        "wait",
        f"{UNIT}rate_headers.py",
    ),
    _py(
        "all of the headers is read, however long",
        "model/rate_headers",
        "if says and size <= room:",
        "if says:",
        f"{UNIT}rate_headers.py::test_hostile_headers_cost_little",
    ),
    _py(
        "ids do not sort by time",
        "protocol/task_ids",
        "digits = _SORTED[digit] + digits",
        "digits = digits + _SORTED[digit]",
        f"{UNIT}commands.py::test_ids_sort_by_time",
    ),
    _py(
        "a page of peek repeats the last task",
        "operations/stored",
        "                if passed:\n                    tasks.append",
        "                if passed or task.id == after:\n                    tasks.append",
        f"{LUA}options.py::test_pages_of_peek_follow_each_other",
    ),
    _py(
        "a page of peek repeats the last task of all partitions",
        "operations/queue",
        "            if passed:\n                found.append",
        "            if passed or task.id == after:\n                found.append",
        f"{CONTRACT}partitions.py::test_pages_of_peek_follow_each_other",
    ),
    _py(
        "a cluster has databases",
        "transport/url",
        'if settings.pop("db", 0):',
        'if settings.pop("db", 0) and False:',
        f"{UNIT}connect.py::test_a_malformed_url_is_refused_at_once_with_the_forms_that_work",
    ),
    _py(
        "a moment counts from the clock of this machine",
        "model/rate_headers",
        "if date is None else date",
        "if True else date",
        f"{UNIT}rate_headers.py",
    ),
    _py(
        "of several limits that are spent the shortest counts",
        "model/rate_headers",
        "_longest(limit.wait for limit in spent)",
        "min((limit.wait for limit in spent if limit.wait is not None), default=None)",
        f"{UNIT}rate_headers.py",
    ),
    _py(
        "the longest payload is one too long",
        "model/payload",
        "if len(body) > self.max_bytes:",
        "if len(body) >= self.max_bytes:",
        f"{UNIT}codec.py",
        f"{CONTRACT}bad_input.py",
    ),
    _py(
        "aliases are lost",
        "model/payload",
        "self._adapter.dump_json(valid, by_alias=True)",
        "self._adapter.dump_json(valid)",
        f"{UNIT}codec.py",
        f"{CONTRACT}hardened.py",
    ),
    _py(
        "a batch of pushes has no bound on its bytes",
        "operations/partition",
        "(batch and size > BATCH_BYTES)",
        "False",
        f"{CONTRACT}api.py::test_large_payloads_go_in_batches_of_bounded_bytes",
    ),
    _py(
        "options of a call give way to those of its task",
        "tasks",
        "{**self._defaults, **named}",
        "{**named, **self._defaults}",
        f"{UNIT}tasks.py",
        f"{CONTRACT}tasks.py",
    ),
]
WAITS = [
    _lua(
        "pushes wake nobody",
        "push",
        "  redis.call('ZADD', wake, '0', 'w')\nelseif",
        "elseif",
        f"{LUA}push.py",
        f"{CONTRACT}waiting.py::test_a_push_wakes",
    ),
    _lua(
        "nobody is told of a delayed push",
        "push",
        "    notice(redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2] - now)\n",
        "",
        f"{LUA}push.py",
        f"{LUA}next_event.py",
    ),
    _lua(
        "one that is woken wakes no other",
        "pop/pass_on",
        "    redis.call('ZADD', wake, '0', 'w')\n",
        "",
        f"{LUA}pop.py",
        f"{CONTRACT}waiting.py::test_a_push_of_three_wakes_three",
    ),
    _lua(
        "resume wakes nobody", "pause", "redis.call('ZADD', wake, '0', 'w')\n", "", f"{LUA}pause.py"
    ),
    _py(
        "a waiter that leaves hands nothing on",
        "transport/waiter",
        "in sorted(set(owned)):",
        "in ():",
        f"{CONTRACT}waiting_limits.py::test_one_that_gives_up_leaves_its_moment",
    ),
    _lua(
        "nobody is appointed to watch",
        "lib/notice",
        "    redis.call('ZADD', wake, moment, 'e')\n",
        "",
        f"{LUA}push.py",
        f"{LUA}notice.py",
    ),
]
REPAIR = [
    _lua(
        "a key that is lost is no problem",
        "repair/diagnose",
        "local holds = task.key == '' or",
        "local holds = true or",
        f"{LUA}check.py",
    ),
    _lua(
        "an event that nobody noticed is no problem",
        "check",
        "if first[2] and not (",
        "if false and not (",
        f"{LUA}check.py",
    ),
    _lua(
        "a dead task in no set comes to life",
        "repair/mend",
        " or #states == 0 and task.reason ~= '' then",
        " then",
        f"{LUA}repair.py",
    ),
    _lua(
        "a repair forgets a delay",
        "repair/mend",
        "task.deliveries == '0' and task.enqueued + task.wait > now then",
        "false then",
        f"{LUA}repair.py",
    ),
    _lua(
        "what waits for long is counted from its push",
        "lib/oldest",
        "now - task.enqueued - task.wait",
        "now - task.enqueued",
        f"{LUA}stats.py",
    ),
]

INTERRUPTIONS = [
    _py(
        "a time limit that redis-py takes for the network is one of the network",
        "model/interrupts",
        "    seen = error.__context__\n",
        "    seen = None\n",
        f"{CONTRACT}interrupted.py::test_an_interruption_spoils_nothing",
    ),
    _py(
        "what a program was dealing with when it called DPQ has interrupted the call",
        "model/interrupts",
        'if str(caught_in).partition(".")[0] == _CONVERTS and by_handler(seen):',
        "if by_handler(seen):",
        f"{UNIT}interrupts.py",
    ),
    _py(
        "only a handler that is a function interrupts",
        "model/interrupts",
        "    for _ in range(9):  # a partial",
        "    for _ in range(0):  # a partial",
        f"{UNIT}interrupts.py",
    ),
    _py(
        "a handler that is an object does not interrupt",
        "model/interrupts",
        '    if not hasattr(function, "__code__"):\n',
        "    if False:\n",
        f"{UNIT}interrupts.py",
    ),
]
LOOPS = [
    _py(
        "a loop until empty ends while others hold tasks",
        "queue/lease_loops",
        "stats.delayed + stats.invisible + stats.waiting",
        "stats.delayed + stats.waiting",
        f"{CONTRACT}leases.py::test_a_loop_waits_for_what_runs_elsewhere",
    ),
    _py(
        "a with around a loop settles nothing",
        "queue/lease_loops",
        "        self.close(error)\n",
        "        pass\n",
        f"{CONTRACT}leases.py::test_a_loop_in_a_with_settles_what_it_is_left_with",
    ),
    _py(
        "an async with around a loop settles nothing",
        "queue/lease_loops",
        "        await self.close(error)\n",
        "        pass\n",
        f"{CONTRACT}leases.py::test_asyncio_has_the_same_loop",
    ),
    _py(
        "another for over a loop acks what the first was left with",
        "queue/lease_loops",
        "    def __iter__(self) -> Self:\n        self._leave()\n",
        "    def __iter__(self) -> Self:\n",
        f"{CONTRACT}leases.py::test_another_for_over_a_loop_acks_nothing_either",
    ),
    _py(
        "another async for over a loop acks what the first was left with",
        "queue/lease_loops",
        "    def __aiter__(self) -> Self:\n        self._leave()\n",
        "    def __aiter__(self) -> Self:\n",
        f"{CONTRACT}leases.py::test_asyncio_has_the_same_loop",
    ),
]
TERMINALS = [
    _py(
        "an error in a log can forge a record",
        "model/display",
        "if _more_lines(trace):",
        "if False:",
        f"{UNIT}shown.py",
    ),
    _py(
        "what an error came from can forge a record",
        "model/display",
        "rest += [error.__cause__, error.__context__, *",
        "rest += [*",
        f"{UNIT}shown.py",
    ),
    _py(
        "json at a terminal has characters that no json has",
        "model/display",
        'f"\\\\u{ord(found[0]):04x}"',
        'f"\\\\x{ord(found[0]):02x}"',
        f"{UNIT}shown.py",
    ),
]
WINDOWS = [
    _lua(
        "a fraction of a millisecond is given away",
        "lib/pace",
        "or math.ceil(interval * 4096)",
        "or math.floor(interval * 4096)",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "a window has no room for its burst",
        "lib/pace",
        "math.ceil(rate) + rule.burst - 1)",
        "math.ceil(rate))",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "a slack is taken for a rate that met a 429",
        "lib/pace",
        "gate.rules.ceiling > 0 and beside <= MOST_UNITS then",
        "gate.rules.ceiling > 0 then",
        f"{LUA}slack.py",
    ),
    _lua(
        "a clock that steps back keeps a learned slack for ever",
        "lib/pace",
        "    beside = math.min(beside, math.max(instant, gate.opens))",
        "    beside = beside",
        f"{LUA}slack.py",
    ),
    _lua(
        "a slack that was said gives way to a learned one",
        "lib/pace",
        "(rule.slack or learned_slack or 0)",
        "(learned_slack or rule.slack or 0)",
        f"{LUA}slack.py",
    ),
    _lua(
        "a closed group of a queue without limits runs",
        "pop/limited",
        "not is_ruled(group) and redis.call('HEXISTS', gates, group) == 0",
        "not is_ruled(group)",
        f"{LUA}rate_limited.py",
        f"{LUA}delay_group.py",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "groups have no limits where the queue has none",
        "pop/limited",
        "return rules and (rules[1] or rules[2])",
        "return rules and rules[1]",
        f"{LUA}pop_limits.py",
    ),
    _lua(
        "gates of groups that are gone pile up after the last limit",
        "pop/limited",
        "      redis.call('HDEL', gates, drawn[i])\n",
        "",
        f"{LUA}pop_limits.py",
    ),
]
UNITS = [
    _lua(
        "the units of a cost are not read",
        "lib/cost",
        "      cost[unit] = tonumber(units)\n",
        "",
        f"{LUA}units.py",
    ),
    _lua(
        "each window is charged requests",
        "pop/judge",
        "cost[rules[i].unit] or 0",
        "cost[''] or 0",
        f"{LUA}units.py",
    ),
    _lua(
        "a queue of format 3 takes units",
        "lib/refusal",
        "elseif units and format == '3' then",
        "elseif false then",
        f"{LUA}units.py",
    ),
    _lua(
        "windows of other units are forgotten",
        "lib/keep",
        "text .. rule.name ..",
        "text .. rule.per ..",
        f"{LUA}units.py",
    ),
]
FORMATS = [
    _lua(
        "a format that cannot be read is another one",
        "lib/refusal",
        "    format = format and string.match(format, '^%d+$') or false\n",
        "",
        f"{LUA}format.py::test_a_format_that_is_no_number_is_lost",
    ),
    _lua(
        "an older format is known",
        "lib/refusal",
        "if format and format ~= '4' and format ~= '3' then",
        "if format and tonumber(format) > 4 then",
        f"{LUA}format.py::test_another_number_is_another_format",
    ),
]
RECORDS = [
    _lua(
        "a record with a reason is written as a plain one",
        "lib/record",
        "and names == task.group .. '\\t\\t\\t' and",
        "and",
        f"{LUA}records.py",
    ),
    _lua(
        "a record with a half of a priority is written as a plain one",
        "lib/record",
        "and string.find(task.priority, '^%-?%d+$') then",
        "then",
        f"{LUA}records.py",
    ),
    _lua(
        "a payload of 512 bytes stands by itself",
        "lib/body",
        "#body <= 512",
        "#body < 512",
        f"{LUA}records.py",
    ),
    _lua(
        "a long payload stays behind a short one",
        "push/merge",
        "redis.call('HDEL', payload, id)",
        "",
        f"{LUA}records.py",
    ),
    _lua(
        "the bytes bound counts a line feed",
        "pop/take",
        "rest = counted and rest + 1",
        "rest = counted and rest",
        f"{LUA}pop.py",
    ),
    _lua(
        "the cost of a head is read from its payload",
        "lib/open_or_close",
        "'^[^\\t\\n]*f%d+",
        "'f%d+",
        f"{LUA}records.py",
    ),
    _lua(
        "a payload is lost with the record before it",
        "lib/bury",
        ".. (inline or '')",
        "",
        f"{LUA}repair.py",
    ),
    _lua(
        "a queue of format 3 gets new records",
        "push",
        "old = settings[1] == '3'",
        "old = false",
        f"{LUA}format3.py",
    ),
    _lua(
        "an upgrade rewrites the record of a running task",
        "upgrade",
        "local body = not held and",
        "local body =",
        f"{LUA}format3.py",
    ),
    _lua(
        "an upgrade leaves payloads twice",
        "upgrade",
        "        redis.call('HDEL', payload, id)\n",
        "",
        f"{LUA}format3.py",
    ),
    _lua(
        "an upgrade leaves the copy of the format",
        "upgrade",
        "  redis.pcall('HSET', stats, 'kept.format', '4')\n",
        "",
        f"{LUA}format3.py",
    ),
    _py(
        "a record after a failure is not read",
        "protocol/records",
        'rest[0][:1] == "f"',
        'delivery == "f"',
        f"{UNIT}replies.py",
    ),
]
DAEMONS = [
    _py(
        "a queue that is gone is stepped for ever",
        "scheduler",
        "                    self._leave(name)\n",
        "                    pass\n",
        f"{DAEMON}scheduler.py::test_a_queue_that_is_gone_is_let_go",
    ),
    _py(
        "of a master that is away each queue is tried again",
        "scheduler",
        "        if node in self._away:\n",
        "        if False:\n",
        f"{DAEMON}scheduler.py::test_a_master_that_is_away_hinders_no_queue_elsewhere",
    ),
    _py(
        "a marker that always has a wake-up hides the others",
        "scheduler",
        "            self._asked.served(self.markers[marker.number])\n",
        "            pass\n",
        f"{DAEMON}scheduler.py::test_no_marker_hides_another",
    ),
    _py(
        "a marker of another type stops the daemon",
        "scheduler",
        "self._deaf[key] = time.monotonic() + DEAF_SECONDS",
        "self._deaf[key] = time.monotonic()",
        f"{DAEMON}scheduler.py::test_a_marker_of_another_type_hinders_no_other",
    ),
    _py(
        "the same trouble is told again and again",
        "scheduler",
        "        self._troubled.add(what)\n",
        "",
        f"{DAEMON}scheduler.py::test_trouble_is_told_once",
    ),
    _py(
        "names that no queue can have stay",
        "queue/registry",
        "            bad.append(raw)\n",
        "            pass\n",
        f"{DAEMON}scheduler.py::test_names_without_a_queue_are_taken_out",
    ),
    _py(
        "who may not remove names tries each of them",
        "queue/registry",
        "self.may_remove = not forbidden(refusal)",
        "self.may_remove = True",
        f"{UNIT}registry.py",
    ),
]
SPREAD = [
    _py(
        "partitions move when their number of slots is counted otherwise",
        "protocol/placement",
        "% _SLOTS * count // _SLOTS",
        "* count // 65536",
        f"{UNIT}partitions.py",
    ),
    _py(
        "an id of another queue names a partition that is not there",
        "protocol/placement",
        "return partition if partition < count else 0",
        "return partition",
        f"{UNIT}partitions.py",
    ),
    _py(
        "a batch has what is not the best of all partitions",
        "operations/pop",
        "if len(order) == wanted or left[partition] == 0:",
        "if len(order) == wanted:",
        f"{CONTRACT}partitions.py::test_batches_are_exact_when_one_partition_has_the_best",
    ),
    _py(
        "only the best heads that are remembered are compared",
        "operations/pop",
        "for _ in range(self._ask // 2)]",
        "for _ in range(0)]",
        f"{CONTRACT}partitions.py::test_nothing_starves",
        f"{CONTRACT}partitions.py::test_a_partition_that_was_empty_is_looked_at",
    ),
    _py(
        "each partition brings as many bytes as all may",
        "operations/pop",
        "return BATCH_BYTES - self._size",
        "return BATCH_BYTES",
        f"{CONTRACT}partitions.py::test_a_batch_has_its_bytes",
    ),
    _lua(
        "places of partitions do not sort by time",
        "lib/draw",
        "if timed and reached - count < math.floor(instant * 100) then",
        "if false then",
        f"{CONTRACT}partitions.py::test_who_asks_all_gets_the_best",
    ),
]
UNSETTLED = [
    _py(
        "an end that the server did not hear of is not sent again",
        "worker/outcomes",
        "            again += (each._replace(budgets=()) for each in done)\n",
        "            pass\n",
        f"{CONTRACT}worker_refused.py",
    ),
    _lua(
        "the key of a task that is cancelled stays",
        "cancel",
        "  redis.call('HDEL', keys, task.key)\n",
        "",
        f"{LUA}cancel.py",
    ),
    _lua(
        "a dead task can be cancelled",
        "cancel",
        "if not task or redis.call('ZSCORE', dead, id) then",
        "if not task then",
        f"{LUA}cancel.py",
    ),
    _lua(
        "a purge leaves heads that are gone",
        "purge",
        "    leave(id, task)\n",
        "",
        f"{LUA}purge.py",
    ),
    _lua(
        "workers that died stay",
        "beat",
        "    redis.call('HDEL', workers, drawn[i])\n",
        "",
        f"{LUA}beat.py",
    ),
    _lua(
        "a worker that was seen in a time to come is one",
        "workers",
        " and seen <= now + forget then",
        " then",
        f"{LUA}workers.py",
    ),
]

DASHBOARD = [
    _py(
        "the dashboard takes actions from other sites",
        "web/access",
        'request.headers.get("sec-fetch-site") != "same-origin"',
        'request.headers.get("sec-fetch-site") == "cross-site"',
        f"{WEB}safety.py",
    ),
    _py(
        "a dashboard that only shows acts",
        "web/routes",
        "if view is not forms.check:",
        "if view is forms.check:",
        f"{WEB}safety.py",
    ),
    _py(
        "the dashboard answers to any host",
        "web/access",
        'if "*" not in hosts and name.lower() not in hosts:',
        'if "*" not in hosts and not name:',
        f"{WEB}safety.py",
    ),
    _py(
        "a session of the dashboard never ends",
        "web/access",
        "int(end) > self._clock()",
        "int(end) > 0",
        f"{WEB}safety.py",
    ),
    _py(
        "the dashboard does not escape",
        "web/render",
        "autoescape=True",
        "autoescape=False",
        f"{WEB}pages.py",
    ),
    _py(
        "an action of the dashboard takes more than was counted",
        "web/actions",
        "[: self.count - taken]",
        "[:]",
        f"{WEB}actions.py",
    ),
    _py(
        "each tab of the dashboard reads by itself",
        "web/sampler",
        "if self._clock() - reading.at >= fresh:",
        "if self._clock() - reading.at >= 0:",
        f"{WEB}pages.py",
    ),
    _lua(
        "a page of the dashboard begins with the last task of the page before",
        "search",
        "there == from and after(seen[1], member)",
        "there == from",
        f"{LUA}search.py",
    ),
    _lua(
        "the dashboard overlooks large groups",
        "find_groups",
        "rank = math.max(rank + step,",
        "rank = math.max(rank + 9 * step,",
        f"{LUA}search.py",
    ),
    _lua(
        "a search of the dashboard finds neighbours of a group",
        "search",
        "ZLEXCOUNT', set, '-', '(' .. group .. '\\n'",
        "ZLEXCOUNT', set, '-', '(' .. group .. 'c'",
        f"{LUA}search.py",
    ),
]

FORESIGHT = [
    _py(
        "a forecast ignores reserves",
        "model/gates",
        "            if missing > 0:\n",
        "            if missing > 1e9:\n",
        f"{CONTRACT}forecast.py",
    ),
    _py(
        "a foreseen start pays from the last one on",
        "model/gates",
        "self.owed = max(self.owed, instant) + self.time_of(units)",
        "self.owed = self.owed + self.time_of(units)",
        f"{CONTRACT}forecast.py",
    ),
    _py(
        "a forecast is exact though delayed tasks were not read",
        "model/forecasting",
        "return self._instant < min(view.last_due, view.last_opening, self._cut_at)",
        "return self._instant < min(view.last_opening, self._cut_at)",
        f"{CONTRACT}forecast.py",
    ),
    _lua(
        "a forecast does not say that it has not read all of a group",
        "forecast",
        "short[#short + 1] = #members > each and group or nil",
        "short[#short + 1] = nil",
        f"{CONTRACT}forecast.py",
    ),
    _py(
        "a queue clears though as many tasks come as end",
        "model/drain",
        "if came_rate >= rate:",
        "if came_rate > 2 * rate:",
        f"{CONTRACT}forecast.py",
    ),
    _py(
        "why names the window that is not spent",
        "operations/limit_replies",
        "missing.index(max(missing))",
        "missing.index(min(missing))",
        f"{LUA}why.py",
    ),
]

PERMITS = [
    _lua(
        "a booking is charged as if it were now",
        "pop/judge",
        "math.max(window.owed, moment or instant)",
        "math.max(window.owed, instant)",
        f"{LUA}acquire.py",
    ),
    _lua(
        "a booking is forgotten when the gate is read again",
        "lib/gate",
        "(gate.booked and MOST_AHEAD_MS or 0)",
        "0",
        f"{LUA}acquire.py",
    ),
    _lua(
        "a booking holds though its group was closed",
        "acquire",
        "booked >= instant - 1000 and opening == 0 and not probing",
        "booked >= instant - 1000",
        f"{LUA}acquire.py",
    ),
    _lua(
        "callers leave no turn to tasks",
        "acquire/booking",
        "instant < booked[3] + TURN_MS",
        "false",
        f"{LUA}acquire.py",
    ),
    _lua(
        "permits do not count as leases",
        "lib/booked",
        "return redis.call('ZLEXCOUNT', tracked, from, '(' .. scope .. '\\t\\127')",
        "return 0",
        f"{LUA}acquire.py",
    ),
    _lua(
        "a permit that ran out is a probe for ever",
        "lib/booked",
        "or 0) > instant",
        "or 0) > 0",
        f"{LUA}acquire.py",
    ),
    _py(
        "a caller that has slept long does not ask again",
        "model/permit",
        "self.granted = wait <= ASK_AGAIN_SECONDS",
        "self.granted = True",
        "tests/contract/test_acquire.py",
    ),
]

SEEN = [
    _py(
        "a lease is put down to whoever had the task before",
        "operations/workers",
        'name = f"{task.token}:{partition}" if partition else str(task.token)',
        'name = next((n for n in told.holders if told.workers), "")',
        f"{LUA}held.py",
    ),
    _py(
        "partitions share the tokens of heartbeats",
        "operations/workers",
        'f"{token}:{part}" if part else str(token) for token, part in named',
        "str(token) for token, part in named",
        f"{LUA}held.py",
    ),
    _py(
        "a heartbeat names the newest leases, without a bound",
        "operations/workers",
        "in named[:MOST_NAMED])",
        "in named)",
        f"{LUA}held.py",
    ),
    _lua(
        "what a worker held stays when it ends",
        "beat",
        "if about == '' or doing == '' then",
        "if about ~= '' and doing == '' then",
        f"{LUA}held.py",
    ),
    _py(
        "an attempt before the last is told as a death",
        "worker/end_log",
        "and task.attempt >= task.max_attempts",
        "and task.attempt >= 1",
        f"{CONTRACT}worker_told.py",
    ),
    _py(
        "fields of log records keep what ends a line",
        "model/display",
        "if isinstance(value, str) and _IN_A_LINE.search(value):",
        "if isinstance(value, bytes) and _IN_A_LINE.search(value):",
        f"{CONTRACT}worker_told.py",
        f"{UNIT}log_lines.py",
    ),
    _py(
        "a worker that drains is ready",
        "worker/pulse",
        'wrong = ["it is stopping"] * stopping',
        "wrong: list[str] = []",
        f"{UNIT}health_port.py",
        f"{CONTRACT}worker_told.py",
    ),
    _py(
        "a worker whose heartbeats nobody answers is ready",
        "worker/base",
        "hear(answered=not any(silent))",
        "hear(answered=True)",
        f"{CONTRACT}worker_told.py",
    ),
    _py(
        "a request of any length is read",
        "cli/_health_port",
        "if over or len(client.request) >= MOST_BYTES:",
        "if over:",
        f"{UNIT}health_port.py",
    ),
]

OTEL = f"{CONTRACT}otel.py"

TRACES = [
    _py(
        "a push that is not sampled leaves its context",
        "otel/spans",
        "context.is_valid and context.trace_flags.sampled",
        "context.is_valid",
        OTEL,
    ),
    _py(
        "a 429 is an error of the span of its handler",
        "otel/spans",
        "not isinstance(error, RateLimited | Release)",
        "not isinstance(error, Release)",
        OTEL,
    ),
    _py(
        "a handler does not run inside of its span",
        "otel/spans",
        "trace.set_span_in_context(self.span, around)",
        "around",
        OTEL,
    ),
    _py(
        "the span of a handler is a child of what runs the worker",
        "otel/spans",
        "contexts.Context() if root",
        "contexts.get_current() if root",
        OTEL,
    ),
    _py(
        "a traced task has no time limit",
        "protocol/records",
        'limit.partition(" ")[0]',
        "limit",
        OTEL,
    ),
    _py(
        "telemetry that fails stops a worker",
        "otel/spans",
        "    except Exception as error:\n        if type_name(error) not in _told:",
        "    except LookupError as error:\n        if type_name(error) not in _told:",
        OTEL,
    ),
]

MUTANTS: list[Mutant] = [
    *(
        ORDER
        + FENCING
        + LEASES
        + LIMITS
        + ADAPTIVE
        + MEMORY
        + SETTINGS
        + SLACK
        + GROUPS
        + DEAD
        + RECURRING
        + KEYS
    ),
    *(PARTITIONS + WORKERS + SCHEDULER + COMMAND_LINE + DURABILITY + EDGES + WAITS + REPAIR),
    *(
        INTERRUPTIONS
        + LOOPS
        + TERMINALS
        + WINDOWS
        + UNITS
        + FORESIGHT
        + PERMITS
        + FORMATS
        + RECORDS
        + DAEMONS
        + SPREAD
        + UNSETTLED
        + POOLS
        + DASHBOARD
        + SEEN
        + TRACES
    ),
]
