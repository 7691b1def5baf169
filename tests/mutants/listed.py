"""The mutants: changes that break what the documents promise, and the tests that should see it.

They are spread over all parts of DPQ, in Python and in Lua. `mutant.py` says how they are written:
function, what is wrong, tests; what stands there; what it becomes. If test_listed.py names a
mutant, write it anew, or take another of the same promise. Tests are a cheap choice, one of which
must fail: `lua/push` is tests/lua/test_push.py.
"""

import re
from dataclasses import dataclass

from mutants.mutant import Change, read_changes


@dataclass(frozen=True, kw_only=True)
class Mutant(Change):
    """A change, and the arguments of pytest that should notice."""

    tests: tuple[str, ...]


LISTED = r"""
# Export and import, many at once
import.lua | an import adds once more what it has added | contract/export
- elseif tonumber(line) > upto then
+ elseif true then
Bulk.step | an action on many tasks takes more than were counted | contract/bulk web/web_actions
- ][:left]
+ ][:]

# Batches of tasks, and tasks that wait for others
let_go | a task runs when the first of those before it has ended | lua/followers
- elseif left ~= '' then
+ elseif false then

# Order
push.lua | FIFO is LIFO and the other way round | contract/order
- lifo and 999999999999999 - place or place
+ lifo and place or 999999999999999 - place
start_over | what comes back in a LIFO queue gets a FIFO place | lua/recurring lua/ack
- place = 999999999999999 - place
+ place = place + 0
encode_priority | integers that no double holds are equal | unit/order
- str(priority), _residual(int(priority))
+ str(priority), _EXACT
score_of | aging begins at the push, due or not | lua/pop
- task.enqueued + task.wait - since
+ task.enqueued - since
merge | raise_priority lowers as well | lua/push
- new > old or new == old
+ new ~= old or new == old
release.lua | a release takes another place | contract/order
- task.delivery = 'r'
+ task.delivery = 'r'
+ task.order = string.sub(task.order, 1, -16) .. '999999999999990'

Leases.cancel | a heartbeat tells nobody of a cancelled task
| contract/worker::test_a_handler_is_told_that_its_task_is_cancelled
- if key[1] in tokens:
+ if False:

# Order of a group over retries
put_back | the next task runs while the first one waits for its retry | lua/in_order
- if not free then
+ if false then
unhold | a group is held for ever once its first task is cancelled | lua/in_order
- return true
+ return false

# Fencing
ack.lua | any token acks | lua/refused
- token ~= claim and token ~= string.match(claim, '^%d+')
+ not token
fence | any token acts | lua/refused
- task.token ~= token
+ false
fence | a settled delivery acts again | lua/refused
- '[fblr]'
+ '[0]'
fence | the holder of a dead task may act on it | lua/refused
-  or redis.call('ZSCORE', dead, id) then
+  then
pop.lua | tokens go back with the clock | lua/pop
- last and last > token and last < 9e15 and last or token
+ token

# Leases
Lease.renew | leases are extended at 95 % of their time
| contract/extensions::test_a_lease_outlives_an_extension_that_is_lost
- (1 / 3 - _JITTER * chance())
+ 0.95
AsyncKeeper.end | end does not wait for an extension on its way
| contract/async::test_a_slow_extension_does_not_undo_a_settling
-             await asyncio.shield(self._beat)
+             pass
Link.receive | an interrupted connection is kept with its reply under way
| contract/link::test_an_interrupted_call_spoils_nothing
-             except BaseException as error:  # replies may still come
-                 fault = self._broken(connection, error)
-             else:
+             finally:
upkeep | the end of a lease costs no attempt | lua/promote lua/pop
- task.attempts = task.attempts + 1
+ task.attempts = task.attempts
upkeep | the end of a lease is never the last attempt | lua/promote lua/pop
- tonumber(task.attempts) >= tonumber(task.max)
+ false
extend | a lease that ran out is extended in two places | lua/extend
- if not redis.call('ZSCORE', invisible, id) then
+ if false then

# Limits
full | one lease more than the concurrency | lua/pop_limits
- return most <= out
+ return most < out
give_back | idle time is credited a second time | lua/true_up
- back = pair.token > token and math.min(back, pair.slack) or back
+ back = pair.token > token and math.max(back, pair.slack) or back
meet | a 429 shortens a longer closing | lua/rate_limited
- math.max(gate.opens, now + ms)
+ now + ms
count_refusal | a task dies while its host refuses all others, too | lua/always_refused
- times < 2 or passed or times > 2 and not others
+ true
count_refusal | a refusal beside others counts as one of a probe | lua/always_refused
- if was_probe then
+ if true then
rate_limited.lua | a task that is always refused stops its group | lua/always_refused
- ms = alone > 1 and
+ ms = false and
meter_at | a quota grants one unit more | lua/quotas
- > meter.left then
+ > meter.left + 1 then
period_of | a day ends by the offset of its begin | lua/quotas
- local start, reset = first_at(wall), first_at(next_wall)
+ local start = first_at(wall); local reset = start + next_wall - wall
observe.lua | what is under way is forgotten | lua/observe
- out * args[i + 3]
+ 0
read_budget | a budget is forgotten at its reset | lua/observe
- instant < kept_until(budget)
+ false
observe.lua | a permit stays under way after its answer | lua/observe
- token == '1'
+ false
pop_plain.lua | the short pop gives tokens by the clock alone | lua/short_ways
- last and last > token and last < 9e15 and last or token
+ token
ack_plain.lua | the short ack takes any token | lua/short_ways
- if claim ~= token or
+ if not claim or
unreserved | a reserve is for all | lua/pop_limits
- local grown = missing <= 0 and 0
+ local grown = 0 and 0
gate_of | a group's own limit is none | lua/pop_limits
- seen.count > (rules and 1 or 0) and rules_of
+ false and rules_of
set_limit.lua | a limit that somebody has changed meanwhile is overwritten
| lua/limit_changes daemon/cli_limits web/web_limits
- if expected and stood
+ if false and stood
set_limit.lua | a change that is sent again is refused
| lua/lost_replies::test_set_limit_with_what_was_seen
- and stood ~= plain_rules(rules) then
+ then

# Adaptive
lower | a 429 teaches nothing | lua/adaptive
- rules.floor, rate / 2
+ rules.floor, rate

# Memory
pop.lua | a pop that has upkeep to do is refused at full memory | lua/full_memory::test_goes_on
-   go_on()
-   moved, soonest = upkeep
+   moved, soonest = upkeep
extend.lua | leases cannot be extended at full memory | lua/full_memory::test_goes_on
- go_on()
promote.lua | upkeep is refused at full memory | lua/full_memory::test_goes_on
- go_on()

# Settings
push.lua | a push goes into a queue of another format
| lua/format contract/worker_refused::test_a_worker_of_a_queue_that_a_newer_dpq_took_over
- { 1 } or refusal(settings[1])
+ { 1 }
opens_at | rules that cannot be read grant all | lua/units
-   if gate.rules.unreadable then
+   if false then

# Slack
pace | slack widens no window | lua/slack
- (rule.per + (rule.slack or learned_slack or 0))
+ rule.per
meet | the 429 of a probe teaches slack | lua/slack
- counts and not was_probe and granted
+ counts and granted

# Groups
take | a popped head has no heir | lua/pop
- if may and crown and group and
+ if false and group and
enter | a closed group lets a newcomer lead | lua/delay_group lua/push
- best or redis.call('ZSCORE', closed, group)
+ best

# Pools
pool_at | the member that was granted last goes first | lua/pools
- best.last <= mate.last
+ best.last > mate.last
leave | the end of a lease frees no member of a pool | lua/pools
- live_note(task, RUNS_AS) or false }
+ false }
ended | an ack opens no group that was full | lua/pop_limits
- stirred[group] or redis.call('ZSCORE', closed, group) and true
+ stirred[group]
passes | no turn passes, whatever the weight | lua/weights
- if gate.turn < 1 and redis.call('ZCOUNT'
+ if false and redis.call('ZCOUNT'

# Dead
bury | the dead letters have no bound | lua/bury lua/fail
-   trim(2)
replay.lua | a replay at a rate is one at once | lua/replay
- first + spacing * replayed
+ first
forget | a dead letter that is dropped keeps its key | lua/bury lua/promote lua/fail
-     redis.call('HDEL', keys, task.key)

# Recurring
next_due | a missed time is not passed over | lua/recurring
- math.max(now, task.enqueued + task.wait)
+ task.enqueued + task.wait

# Keys
finish_keys | a finished task keeps its key | lua/ack
-       free[#free + 1] = key
finish_keys | a seen key is free after the ack | lua/seen
-     if ms and #ms <= 16 then
+     if false then
prune_seen | the upkeep of a seen key takes the key of its new task | lua/seen
-     if string.find(redis.call('HGET', keys, key) or '', '\t', 1, true) then
+     if true then
claim | a seen key is free | lua/seen
- if seen and tonumber(ends) > now
+ if false and tonumber(ends) > now
claim | a key that is taken is no error | lua/push
- elseif option.on_duplicate == 'error' then
+ elseif false then
merge | a dead holder of a key is not revived | lua/push
-     elseif died then
+     elseif false then

# Workers
Fetcher.add | what was fetched ahead of a 429 runs all the same
| contract/worker_ends::test_what_was_fetched_under_the_same_limit_goes_back
- if isinstance(done.error, RateLimited):
+ if False:
Worker._finish.give_up | a worker that ends waits for nobody
| contract/worker::test_a_stop_waits_for_handlers
- give_up = time.monotonic() + self.grace
+ give_up = time.monotonic()
AsyncRunner.free | one handler more than the concurrency | unit/runner
- return self._state.concurrency
+ return 1 + self._state.concurrency
Fetcher._exchange | an end that an exchange could not send is forgotten | unit/fetcher
-             self.ends = done + self.ends
+             pass
Runner._handle | an overdue attempt ends as its handler does
| contract/worker_ends::test_hooks_hear_of_a_time_limit
-         error = call.overdue or error
+         pass

# Scheduler
Upkeep._stepped | the scheduler keeps a name whose queue is gone
| daemon/scheduler::test_a_queue_that_is_gone_is_let_go
- if gone and not self._named:
+ if gone and self._named:
Moments.first | the scheduler sleeps until the last of its queues' events
| daemon/scheduler::test_the_first_event_of_all_queues
- return min(self.values(), default=math.inf)
+ return max([m for m in self.values() if m < 1e300], default=1e300)
Scheduler.run.answered | a server is back that nobody has asked | daemon/scheduler::test_reconnects
- answered = self._round()
+ answered = self._round() or True
Watch.marker_received | a second watcher drops the marker of the next moment | lua/recheck
- if earlier or self.second:
+ if earlier:
watch | a moment between two looks has no watcher | lua/recheck
- moment < now + 10000 and
+ moment < now + 5000 and
glance.lua | a glance says nothing is to come
| lua/glance daemon/scheduler_idle::test_a_lost_marker_costs_a_glance
- elseif soonest then
+ elseif false then
_Block.end | a wake-up that goes into a connection at its end is lost
| security/acl::test_a_wake_up_that_may_be_lost_is_handed_on
-         self.close()
-         return False
+         self.maybe_lost = False
+         self.close()
+         return False

# Command line
ack | an ack of what is gone says that it is done
| daemon/cli::test_an_ack_of_what_is_gone_meanwhile_says_so
-         raise _gone(q, task_id)
-     talk
+         pass
+     talk

# Durability
judged | what no replica has confirmed is taken for confirmed
| durability/durable::test_what_is_not_confirmed_says_what_was_done
-     if not refusals and int(
+     if not refusals or int(
confirming | a call that changes nothing asks for nothing
| durability/durable::test_without_its_write_nothing_is_confirmed
| durability/durable::test_the_same_call_again_asks_once_more
- ("HINCRBY", beside(key, "stats"), "pushed", 0)
+ ("PING",)
unconfirmed | what the client sends counts as confirmed
| durability/durable::test_what_the_client_sends_is_not_confirmed
-     return Unconfirmed(reply, durability, reason=reason)
+     return reply
AsyncLink.receive | in asyncio a client without retries sends twice | contract/async
-             if not (self._nodes.sends_once or
+             if not (not self._nodes or
_STEERS | a terminal can be steered | unit/shown daemon/cli_shown
- \x0b-\x1f\x7f
+ \x0b-\x1a\x1c-\x1f\x7f
meaning_of | a header closes for as long as it likes | unit/answers
- min(named, MAX_RETRY_AFTER)
+ named
_read | all of the headers is read, however long
| unit/answers::test_hostile_headers_cost_little
- if says and size <= room:
+ if says:

# Waits
pass_on | one that is woken wakes no other
| lua/pop contract/waiting::test_a_push_of_three_wakes_three
-     redis.call('ZADD', wake, '0', 'w')
pause.lua | resume wakes nobody | lua/pause
- redis.call('ZADD', wake, '0', 'w')
watch | nobody is appointed to watch | lua/push lua/notice
-     redis.call('ZADD', wake, moment, 'e')

# Repair
diagnose | a key that is lost is no problem | lua/check
- if task.key ~= '' and redis
+ if false and redis
check.lua | an event that nobody noticed is no problem | lua/check
- if first[2] and tonumber
+ if false and tonumber

# Loops
LeaseLoop.__next__ | a loop until empty ends while others hold tasks
| contract/leases::test_a_loop_waits_for_what_runs_elsewhere
- if not queue.size():
+ if not queue.stats().ready:

# Terminals
CleanRecords.clean | an error in a log can forge a record | unit/shown
- indent(shown(text, lines=True), "  ")
+ shown(text, lines=True)

# Windows
pace | a fraction of a millisecond is given away | lua/pop_limits
- or math.ceil(interval * 4096)
+ or math.floor(interval * 4096)

# Units
charge | each window is charged requests | lua/units
- local units = cost[rule.unit] or 0
+ local units = cost[''] or 0

# Formats
refusal | a format that cannot be read is another one
| lua/format::test_a_format_that_is_no_number_is_lost
-   format = format and string.match(format, '^%d+$') or false

# Records
write | a record with a reason is written as a plain one | lua/records
- and names == task.group .. '\t\t\t' and
+ and

# Daemons
Listener.wait | a marker that always has a wake-up hides the others
| daemon/scheduler::test_no_marker_hides_another
-             self._asked.served(self.markers[marker.number])
+             pass

# Results and progress
keep_results | a result outlives its time where others are kept | lua/results
-     if number and tonumber(expires) <= now then
+     if false then
results_in | what was not finished has a result | lua/results
- and not passed[i] then
+ then
progress.lua | an old delivery is not told that its lease is lost | lua/results
- task and 1 or refused
+ 1

# Web applications
push_on_commit | a rollback pushes all the same | daemon/django
- transaction.on_commit(pending, using=using)
+ pending()

# Unsettled
Deliveries._answered | an end that the server did not hear of is not sent again
| contract/worker_refused
- return _next_try(done, result)
+ return ()
cancel.lua | a dead task can be cancelled | lua/cancel
- if not task or redis.call('ZSCORE', dead, id) then
+ if not task then
beat.lua | a quiet worker takes tasks once its queue was dropped | lua/quiet contract/heartbeats
- is_new and quiet == '1' and
+ false and

# Errors and lapses
tell_error | an error has no bound of bytes | lua/errors
- string.sub(text, 1, 500)
+ text
add_event | the stream of events grows without end | lua/history
- 'MAXLEN', '~', most, place
+ place
events.lua | the events of a task are those of all | lua/errors
- (task == '' or fields[8] == task)
+ true
upkeep | a task may lapse once more than its push says | lua/errors
- lapses + 1 >= tonumber(bound)
+ lapses + 0 >= tonumber(bound)

# Dashboard
Guard.require_own_page | the dashboard takes actions from other sites | web/web_safety
- site == "same-origin" and (own or origin in (None, "null"))
+ site != "cross-site"
_endpoint.endpoint | the dashboard admits strangers | web/web_safety
-             site.guard.admit(request, open_to_all=public)
pages.py | the dashboard searches payloads that it does not show | web/web_pages
- payloads=call.site.guard.access.payloads, **given
+ **given
answered | a dashboard that only shows acts | web/web_safety
- if not public:
+ if False:
Guard.admit | the dashboard answers to any host | web/web_safety
- if "*" not in hosts and name.lower() not in map(str.lower, hosts):
+ if "*" not in hosts and not name:
environment.made | the dashboard does not escape | web/web_pages
- autoescape=True
+ autoescape=False

# Permits
acquire.lua | a booking goes into the next period of a quota | lua/acquire
- shuts(period_over(scopes, at))
charge | a booking is charged as if it were now | lua/acquire
- local rules, at = gate.rules, moment or instant
+ local rules, at = gate.rules, instant
acquire.lua | a booking holds though its group was closed | lua/acquire
- booked >= instant - 1000 and opening == 0 and not probing
+ booked >= instant - 1000
running | permits do not count as leases | lua/acquire
- return redis.call('ZLEXCOUNT', tracked, from, '(' .. scope .. '\t\127')
+ return 0

# Seen
CleanRecords.clean | fields of log records keep what ends a line
| contract/worker_told unit/log_lines
- if isinstance(value, str) and _IN_A_LINE.search(value):
+ if isinstance(value, bytes) and _IN_A_LINE.search(value):
Pulse.health.wrong | a worker that drains is ready | unit/health_port contract/worker_told
- wrong = ["it is stopping"] * stopping
+ wrong: list[str] = []

# Embedded
require_own | an embedded server is put into a directory that all may write
| daemon/server::test_a_directory_that_others_may_write_is_refused
- if status.st_mode & 0o022:
+ if status.st_mode & 0o002:

# Traces
safely | telemetry that fails stops a worker | contract/otel
-     except Exception as error:
-         if type_name(error) not in _told:
+     except LookupError as error:
+         if type_name(error) not in _told:

# Moving
hold_moving | a moving window forgets what has not left | lua/moving
- drop_slots(window, (instant - length_of(gate, rule)) / rule.tick)
+ drop_slots(window, (instant - rule.per * 0.9) / rule.tick)
moving_opens | a moving window grants one unit more | lua/moving
- window.sum + units - rule.rate, window.sum
+ window.sum + units - rule.rate - 1, window.sum
recount | a moving window gives back of its newest slot | lua/moving
- found[n][1] < tick do
+ found[n + 1] do

# Batches
Results._locked.same | an answer goes into a file that was replaced | unit/batch
- same = os.stat(self.path).st_ino == os.fstat(file).st_ino
+ same = True
target | a line of a batch may name another host | unit/batch
- if urlsplit(full)[:2] != here[:2]:
+ if urlsplit(full)[:1] != here[:1]:
Results._append | dpq run acks before its answer is on the disk | unit/batch
-                 os.fsync(file)
Results._append | a failed write leaves half a line of a result | unit/batch
- os.ftruncate(file, end)
+ pass

# Transports
Permit._logged | an answer that cannot be reported is lost | contract/transport_outages
- queue, host, line = self
+ raise
+             queue, host, line = self
Exchange.send | an interrupt of a report leaves the answer open | contract/transport_outages
-                 close(response)
+                 pass
AsyncExchange.send | an error of the client leaves its permit | contract/transport_outages
-                 await self.end(error)
+                 pass
Outage.begin | requests pass though they are to raise | contract/transport_outages
- not self._passes or forbidden(error)
+ forbidden(error)
Options.permit_for.member | a request to a pool may use any key | contract/transport_pools
- member = UNKNOWN_MEMBER
+ member = None
TransportBase._request_to_send | a redirect of httpx carries the key to another host
| contract/transport_pools
-         return sent
+         return request
judge | tasks take the lease of a caller who must be this member | lua/acquire_members
-  or mate and kept_for(mate, score, raw) or at
+  or at
Exchange._tell_spent | a function that fails spoils the answer | contract/true_up_http
-         except Exception as error:  # the caller's function: its
+         except MemoryError as error:  # the caller's function: its

# Contact
base.py | an import of DPQ loads pydantic | unit/import
- from dpq.script.durability import Durability, named_durability
+ from dpq.script.durability import Durability, named_durability
+ import pydantic
Loader.finish | a finished batch takes a queue that was there before
| daemon/cli_run::test_a_queue_that_was_there_before_stays
-                 if self._owns:
+                 if True:

# Bounds
call_producers | a full queue calls nobody | lua/room
- '[' .. line, '(\14' .. group
+ '[' .. line .. '9', '(\14' .. group
drop_worst | a push pays for all tasks that have come back | lua/room
- math.min(count, size_of(group) - most)
+ size_of(group) - most

# The verdict
past | a closing that is over still counts | lua/search
- return low
+ return 0

# What the state machine must find by itself
leave | a cancelled head has no heir | stateful/machine
- redis.call('ZREM', ready, shown)
-       succeed(group)
+ redis.call('ZREM', ready, shown)
judge | the group is not paid | stateful/machine
-       charge(gate, units, id, token, early.at[id])

# Heads and moments
enter | a better task that comes back waits behind the head of its group | lua/release
- best and (score < best or score == best and member < first)
+ false
open_or_close | a closed group keeps its head in ready | lua/set_limit
-     shut(group)
-     at = next_at(group)
+     at = next_at(group)
add_full | what a double loses of a priority is lost | contract/order
- option.residual ..
+ '1' ..
replay.lua | a replay keeps the spent attempts | lua/replay
- task.attempts, task.expires, task.reason, task.again = 0
+ task.attempts, task.expires, task.reason, task.again = task.attempts
notice | the earliest event is forgotten | lua/notice
- if not known or not (now + ms >= known) then
+ if not known then
pay_window | a window that was idle is paid from its last unit on | lua/pop_limits
- (paid > at and paid or at) + time_of(units, window)
+ paid + time_of(units, window)
pay_window | a task of any cost pays for one unit | lua/pop_limits
- + time_of(units, window)
+ + time_of(1, window)
opens_at | only the shortest window counts | lua/pop_limits
- in ipairs(gate.rules) do
+ in ipairs({ gate.rules[1] }) do
ended | a task that has ended counts as running | lua/pop_limits
- redis.call('ZREM', tracked, unpack(others)) == 0
+ false
end_probe | one probe follows the other | lua/rate_limited
- again and 'p' or '-'
+ 'p'
charge | a learned rate never rises | lua/adaptive
- gate.used * 2 >= gate.rate
+ false
lead | the group that was served keeps its turn | lua/round_robin
- turn = turn and turn ~= true and turn or string.format('%015.0f', draw(conf, 'turns', 1) + 1)
+ turn = turn and turn ~= true and turn or sequence_of(member)
no_room | a queue takes one task too many | lua/room
- size + fresh > most
+ size + fresh > most + 1
drop_worst | the best task of a full group is dropped | lua/room
- redis.call('ZREVRANGEBYLEX', waiting, from, to
+ redis.call('ZRANGEBYLEX', waiting, to, from
"""


def test_file(word: str) -> str:
    """Make the argument of pytest: `lua/push::test_x` is tests/lua/test_push.py::test_x."""
    return re.sub(r"^((?:\w+/)*)(\w+)", r"tests/\1test_\2.py", word)


MUTANTS = [
    Mutant(**change, tests=tuple(map(test_file, rest.split())))
    for change, rest in read_changes(LISTED)
]
