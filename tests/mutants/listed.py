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
import.lua | another task under the id is taken for its own | contract/export
- (known.group ~= task.group or known.key ~= task.key) and -4
+ false
Bulk.step | an action on many tasks takes more than were counted | contract/bulk web/web_actions
- [: self.count - taken]
+ [:]

# Batches of tasks, and tasks that wait for others
keep | a batch is finished while tasks are left | lua/batches
- elseif tonumber(batch.left) == 0 then
+ elseif true then
let_go | a task runs when the first of those before it has ended | lua/followers
- elseif left ~= '' then
+ elseif false then
find_waits | a task may wait for one that never ends | lua/followers
- task and task.schedule ~= '' and -11
+ nil

# Order
push.lua | FIFO is LIFO and the other way round | contract/order
- lifo and 999999999999999 - place or place
+ lifo and place or 999999999999999 - place
anew | what comes back in a LIFO queue gets a FIFO place | lua/recurring lua/ack
- place = 999999999999999 - place
+ place = place + 0
encode_priority | integers that no double holds are equal | unit/order
- str(priority), _residual(int(priority))
+ str(priority), _EXACT
_residual | what a double loses sorts the wrong way | unit/order
- {999 - lost:03d}
+ {lost:03d}
score_of | aging begins at the push, due or not | lua/pop
- task.enqueued + task.wait - since
+ task.enqueued - since
merge | raise_priority lowers as well | lua/push
- new > old or new == old
+ new ~= old or new == old
push.lua | tasks without a group take no turns | lua/round_robin
- settings[5] == 'round_robin'
+ false
shares | an idle group gains credit | lua/shares
- or at <= first then
+ then
spend | weights do not count | lua/shares
- / weight_of(group)
+ / 1
release.lua | a release takes another place | contract/order
- task.delivery = 'r'
+ task.delivery = 'r'
+ task.order = string.sub(task.order, 1, -16) .. '999999999999990'
take_wanted | a wanted task passes its limits | lua/pop_by_id
- return judge(...) or false
+ return judge(...) or true

fence | the holder of a cancelled task is told that its lease is lost | lua/cancel
- return nil, -13
+ return nil, -1
Leases.cancel | a heartbeat tells nobody of a cancelled task
| contract/worker::test_a_handler_is_told_that_its_task_is_cancelled
- if key[1] in tokens:
+ if False:

# Order of a group over retries
back | the next task runs while the first one waits for its retry | lua/in_order
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
- '[fbr]'
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
Keeper.let_go | let_go does not wait for an extension on its way
| contract/extensions::test_an_extension_on_its_way_undoes_nothing
-             with self._beat:
-                 pass
+             pass
AsyncKeeper.end | end does not wait for an extension on its way
| contract/async::test_a_slow_extension_does_not_undo_a_settling
-             await asyncio.shield(self._beat)
+             pass
QueueOperations.finish | a Release is a failed attempt
| contract/worker::test_release_gives_back_uncounted
- return self.release(task, error.delay, None, cost)
+ return self.fail(task, error, error.delay)
Connections._receive | an interrupted connection is kept with its reply under way
| contract/link::test_an_interrupted_call_spoils_nothing
-             except BaseException as error:  # replies may still come
-                 clean, broken = False, self._broken(node, connection, error)
-             else:
+             finally:
Leases._lose | nobody is told that a lease is lost
| contract/worker::test_a_handler_is_told_that_its_lease_is_lost
| unit/runner
- if lease.lost:
+ if False:
upkeep | the end of a lease costs no attempt | lua/promote lua/pop
- task.attempts = task.attempts + 1
+ task.attempts = task.attempts
upkeep | the end of a lease is never the last attempt | lua/promote lua/pop
- tonumber(task.attempts) >= tonumber(task.max)
+ false
extend | a lease that ran out is extended in two places | lua/extend
- if not redis.call('ZSCORE', invisible, id) then
+ if false then
set_visibility.lua | set_visibility costs an attempt | lua/set_visibility
-   task.deferrals =
+   task.attempts = task.attempts + 1
+   task.deferrals =
apart | a task that was started in time expires later | lua/pop lua/promote
- deliveries == '0' and expires or '0', group
+ expires, group

# Limits
full | one lease more than the concurrency | lua/pop_limits
- return most <= out
+ return most < out
bound_of | a closing bounds what was granted before it | lua/pop_limits
-   return instant + reach_of(
+   return math.max(instant, gate.opens) + reach_of(
give_back | idle time is credited a second time | lua/true_up
- back = pair.token > token and math.min(back, pair.slack) or back
+ back = pair.token > token and math.max(back, pair.slack) or back
true_up | a unit may be told twice | lua/true_up
- string.find(',' .. (known or ''), ',' .. unit .. '=', 1, true)
+ string.find(',' .. (known or ''), ',' .. unit .. '==', 1, true)
meet | a 429 shortens a longer closing | lua/rate_limited
- math.max(gate.opens, now + ms)
+ now + ms
rate_limited.lua | a 429 of the queue closes the group only | lua/rate_limited
- local closes = scope == 'queue' and '' or task.group
+ local closes = task.group
quotas.opens | a quota grants one unit more | lua/quotas
- if quota.count + units > rule.amount then
+ if quota.count + units > rule.amount + 1 then
period_of | a day ends by the offset of its begin | lua/quotas
- local start, reset = first_at(wall), first_at(next_wall)
+ local start = first_at(wall); local reset = start + next_wall - wall
observe.lua | what is under way is forgotten | lua/observe
- out * tonumber(args[i + 3])
+ 0
renew | a budget is forgotten at its reset | lua/observe
- instant < budgeting.kept_until(budget)
+ false
observe.lua | a permit stays under way after its answer | lua/observe
- token == '1'
+ false
reset_gate | a reset that is sent again resets again | lua/set_limit
- string.match(gate.reset, '^%d+') == id
+ false
pop_plain.lua | the short pop puts nothing back | lua/short_ways
- redis.call('ZADD', ready, unpack(left))
+ redis.call('ZCARD', ready)
pop_plain.lua | the short pop gives tokens by the clock alone | lua/short_ways
- last and last > token and last < 9e15 and last or token
+ token
ack_plain.lua | the short ack takes any token | lua/short_ways
- if claim ~= token or
+ if not claim or
opens_at | a reserve is for all | lua/pop_limits
- if grown > 0 then
+ if false then
whole_ms | a window that is no whole ms is shortened | unit/limits
- math.ceil(float(
+ math.floor(float(
gate_of | a group's own limit is none | lua/pop_limits
- seen.count > (rules and 1 or 0) and rules_of
+ false and rules_of
set_limit.lua | a looser limit wakes nobody
| lua/set_limit contract/waiting_limits::test_a_looser_limit_wakes
-   redis.call('ZADD', wake, '0', 'w')
set_limit.lua | a limit that somebody has changed meanwhile is overwritten
| lua/limit_changes daemon/cli_limits web/web_limits
- if expected and stood
+ if false and stood
set_limit.lua | a change that is sent again is refused
| lua/lost_replies::test_set_limit_with_what_was_seen
- and stood ~= plain_rules(rules) then
+ then
pause.lua | resume leaves the queue closed by a 429 | lua/pause
- if paid then
+ if false then

# Adaptive
lower | a 429 teaches nothing | lua/adaptive
- rules.floor, rate / 2
+ rules.floor, rate
charge | a rate rises though nobody uses it | lua/adaptive
- gate.used * 2 >= gate.rate
+ true
lower | what went through before the 429 is not looked at | lua/adaptive
- math.min(rate, gate.used - 1 + before)
+ rate

# Memory
pop.lua | a pop that has upkeep to do is refused at full memory | lua/full_memory::test_goes_on
-   go_on()
-   moved, soonest = upkeep
+   moved, soonest = upkeep
extend.lua | leases cannot be extended at full memory | lua/full_memory::test_goes_on
- go_on()
delay_group.lua | a group cannot be closed at full memory | lua/full_memory::test_goes_on
- go_on()
promote.lua | upkeep is refused at full memory | lua/full_memory::test_goes_on
- go_on()

# Settings
push.lua | a push goes into a queue of another format
| lua/format contract/worker_refused::test_a_worker_of_a_queue_that_a_newer_dpq_took_over
- )
- if refused then
+ )
+ if refused and refused[1] ~= -8 then
pop.lua | a pop goes into a queue of another format
| lua/format contract/worker_refused::test_a_worker_of_a_queue_that_a_newer_dpq_took_over
- if refused then
+ if refused and refused[1] ~= -8 then
promote.lua | a promote goes into a queue of another format
| lua/format contract/worker_refused::test_a_worker_of_a_queue_that_a_newer_dpq_took_over
- )
- if refused then
+ )
+ if refused and refused[1] ~= -8 then
opens_at | rules that cannot be read grant all | lua/units
-   if gate.rules.unreadable then
+   if false then
owe_at_most | what was granted and cannot be read was nothing | lua/units
- if spent or not window.paid then
+ if not window.paid then

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
enter | a better newcomer waits behind the head | lua/push
- best and (score < best or score == best and member < first)
+ false
enter | a closed group lets a newcomer lead | lua/delay_group lua/push
- best or redis.call('ZSCORE', closed, group)
+ best
delay_group.lua | closing by hand never shortens | lua/delay_group
- UNTIL_OPENED or now + ms, 'h'
+ UNTIL_OPENED or math.max(gate.opens, now + ms), 'h'

# Pools
pool_at | the member that was granted last goes first | lua/pools
- best.last <= mate.last
+ best.last > mate.last
pool_at | a member of a pool is never full | lua/pools
- full(mate) then
+ false then
leave | the end of a lease frees no member of a pool | lua/pools
- live_note(task, RUNS_AS) or false }
+ false }
ended | an ack opens no group that was full | lua/pop_limits
- stirred[group] or redis.call('ZSCORE', closed, group) and true
+ stirred[group]
rate_limited.lua | a 429 of a member of a pool closes its group | lua/pools
- scope == 'member' and runs_as
+ false and runs_as
passes | no turn passes, whatever the weight | lua/weights
- if gate.turn < 1 and redis.call('ZCOUNT'
+ if false and redis.call('ZCOUNT'

# Dead
bury | the dead letters have no bound | lua/bury lua/fail
-   trim(2)
replay.lua | replayed tasks keep their spent attempts | lua/replay
- task.again = 0, 0, '', 0
+ task.again = task.attempts, 0, '', 0
replay.lua | a replay at a rate is one at once | lua/replay
- first + spacing * replayed
+ first
forget | a dead letter that is dropped keeps its key | lua/bury lua/promote lua/fail
-     redis.call('HDEL', keys, task.key)

# Recurring
next_due | a missed time is not passed over | lua/recurring
- math.max(now, task.enqueued + task.wait)
+ task.enqueued + task.wait
anew | a run has no time in which it must start | lua/recurring
- expires_in == '0' and '0' or string.format('%.0f', at + expires_in)
+ '0'
next_times.start | cron lines are read in UTC | unit/schedule
- zone(timezone))
+ UTC)

# Keys
finish_keys | a finished task keeps its key | lua/ack
-       free[#free + 1] = key
finish_keys | a seen key is free after the ack | lua/seen
-     if ms and #ms <= 16 then
+     if false then
prune_seen | seen keys have no cap | lua/seen
-   if surplus > #over then
+   if false then
prune_seen | the upkeep of a seen key takes the key of its new task | lua/seen
-     if string.find(redis.call('HGET', keys, key) or '', '\t', 1, true) then
+     if true then
debounced | a task is delayed beyond debounce_max | lua/debounce
- math.min(option.delay, task.enqueued + option.debounce_max - now)
+ option.delay
claim | a seen key is free | lua/seen
- if seen and tonumber(ends) > now
+ if false and tonumber(ends) > now
claim | a key that is taken is no error | lua/push
- elseif option.on_duplicate == 'error' then
+ elseif false then
merge | a dead holder of a key is not revived | lua/push
-     elseif died then
+     elseif false then
revise | an update takes a running task from its holder | lua/push lua/update
- local moves = not running and (
+ local moves = (

# Workers
Fetcher.add | what was fetched ahead of a 429 runs all the same
| contract/worker_ends::test_what_was_fetched_under_the_same_limit_goes_back
- if self._prefetch and isinstance(done.error, RateLimited):
+ if False:
Worker._finish.give_up | a worker that ends waits for nobody
| contract/worker::test_a_stop_waits_for_handlers
- give_up = time.monotonic() + self.grace
+ give_up = time.monotonic()
OverdueWatch.end_overdue | a time limit is none | unit/runner
- (limit := run.limit) is not None and run.began + limit <= now
+ (limit := run.limit) is not None and not now
Heartbeats.pause | workers that begin together beat together | unit/work
- (1 - jitter * self._chance())
+ 1
Runner.handle.limit | a task has no time limit of its own
| contract/worker::test_a_task_has_a_time_limit_of_its_own
- task.time_limit or calls.time_limit
+ calls.time_limit
none_live | a drain leaves what is delayed
| contract/worker::test_drain_waits_for_delayed_and_failing_tasks
- count.ready + count.delayed + count.invisible
+ count.ready + count.invisible
AsyncRunner.fill | one handler more than the concurrency
| unit/runner
- len(self._running) < self._concurrency and
+ len(self._running) <= self._concurrency and
_cancel_lost | a lost lease cancels nothing
| unit/runner
-     handling.cancel(f"task {task} was cancelled" if lease.cancelled else f"lease of {task} lost")
+     handling
Fetcher._next_step | two threads ask for tasks at once | unit/fetcher
- if self._look and not asking:
+ if self._look:
Fetcher._exchange | an end that an exchange could not send is forgotten | unit/fetcher
-             self.ends += exchange.done
+             pass
Runner.handle.error | an overdue attempt ends as its handler does | unit/runner
-         error = run.overdue or error
+         pass
AsyncRunner._finish | an end is handed over though another caller has ended the delivery
| unit/runner
-         if held:  # else
+         if True:  # else

# Scheduler
Upkeep._stepped | the scheduler keeps a name whose queue is gone
| daemon/scheduler::test_a_queue_that_is_gone_is_let_go
- if gone and not self._named:
+ if gone and self._named:
Moments.first | the scheduler sleeps until the last of its queues' events
| daemon/scheduler::test_the_first_event_of_all_queues
- return min(self.values(), default=math.inf)
+ return max([m for m in self.values() if m < 1e300], default=1e300)
Scheduler.run_once | a master that is away stops the queues of the others
| daemon/scheduler::test_a_master_that_is_away_hinders_no_queue_elsewhere
- if not answered and (fault := fault or away):
+ if fault := fault or away:
Scheduler.run.answered | a server is back that nobody has asked | daemon/scheduler::test_reconnects
- answered = self._round()
+ answered = self._round() or True
watch | a moment between two looks has no watcher | lua/recheck
- moment < now + 10000 and
+ moment < now + 5000 and
glance.lua | a glance says nothing is to come
| lua/glance daemon/scheduler_idle::test_a_lost_marker_costs_a_glance
- elseif soonest then
+ elseif false then
Scheduler._woken | a marker with many members wakes the scheduler for each
| daemon/scheduler::test_a_flood_of_wake_ups
- if self._pace.again(key, now):
+ if False:
Names.look | all names are looked at before queues have their turn
| daemon/scheduler::test_junk_that_may_not_be_removed_starves_nobody
- while looked < NAMES_A_LOOK:
+ while True:
_Block.end | a wake-up that goes into a connection at its end is lost
| security/acl::test_a_wake_up_that_may_be_lost_is_handed_on
-         self.close()
-         return False
+         self.maybe_lost = False
+         self.close()
+         return False

# Command line
pop | a pop of nothing ends with 0 | daemon/cli::test_pop_of_nothing_ends_with_1
- if not tasks:
+ if False:
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
confirming | a call waits for no replica
| durability/durable::test_without_a_replica_nothing_is_confirmed
| durability/durable::test_what_is_not_confirmed_says_what_was_done
- ("WAIT", 1, ms)
+ ("WAIT", 0, ms)
confirming | a call that changes nothing asks for nothing
| durability/durable::test_without_its_write_nothing_is_confirmed
| durability/durable::test_the_same_call_again_asks_once_more
- ("HINCRBY", beside(key, "stats"), "pushed", 0)
+ ("PING",)
unconfirmed | what the client sends counts as confirmed
| durability/durable::test_what_the_client_sends_is_not_confirmed
-     return Unconfirmed(reply, durability, reason=reason)
+     return reply
_Link._exchange | in asyncio a client without retries sends twice | contract/async
-             if not (self._nodes.sends_once or
+             if not (not self._nodes or
mask | a password with an @ in it is shown
| unit/connect::test_a_masked_url_shows_all_but_the_password
- shown += parts["server"]
+ shown += url.split("?")[0].partition("@")[2] or parts["server"]
_STEERS | a terminal can be steered | unit/shown daemon/cli_shown
- \x0b-\x1f\x7f
+ \x0b-\x1a\x1c-\x1f\x7f
keep | others can read what an embedded server stores
| daemon/server::test_nobody_else_can_read_what_is_stored
-     os.umask(0o077)
+     os.umask(0o022)
seconds_to_wait | a header closes for as long as it likes | unit/rate_headers
- min(wait, MAX_RETRY_AFTER)
+ wait
_read | all of the headers is read, however long
| unit/rate_headers::test_hostile_headers_cost_little
- if says and size <= room:
+ if says:
_forked | a forked child waits for a lock of its parent | unit/commands
- _maker = _Maker()
+ pass
Codec.encode | the longest payload is one too long | unit/codec contract/bad_input
- if len(body) > self.max_bytes:
+ if len(body) >= self.max_bytes:

# Waits
pass_on | one that is woken wakes no other
| lua/pop contract/waiting::test_a_push_of_three_wakes_three
-     redis.call('ZADD', wake, '0', 'w')
pause.lua | resume wakes nobody | lua/pause
- redis.call('ZADD', wake, '0', 'w')
handing_on | a waiter that leaves hands nothing on
| contract/waiting_limits::test_one_that_gives_up_leaves_its_moment
- in sorted(set(owned)):
+ in ():
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
AsyncLeaseLoop.__aexit__ | an async with around a loop settles nothing
| contract/leases::test_asyncio_has_the_same_loop
-         await self.close(error)
+         pass

# Terminals
CleanRecords.clean | an error in a log can forge a record | unit/shown
- if _more_lines(trace):
+ if False:

# Windows
pace | a fraction of a millisecond is given away | lua/pop_limits
- or math.ceil(interval * 4096)
+ or math.floor(interval * 4096)
pace | a window has no room for its burst | lua/pop_limits
- math.ceil(rate) + rule.burst - 1)
+ math.ceil(rate))
is_free | a closed group of a queue without limits runs
| lua/rate_limited lua/delay_group lua/pop_limits
- not is_ruled(group) and redis.call('HEXISTS', gates, group) == 0
+ not is_ruled(group)

# Units
weigh | the units of a cost are not read | lua/units
-       cost[unit] = tonumber(units)
charge | each window is charged requests | lua/units
- local units = cost[rule.unit] or 0
+ local units = cost[''] or 0
moment_text | what a window is paid for is rounded down to a ms | lua/pop_limits
- part * 10000 + 0.5
+ 0
settle | tasks that run together pay nothing | lua/pop_limits
- if taken > 0 then
+ if false then
has_ended | gates are forgotten while their grants count | lua/slack
- return until_ms <= instant
+ return true

# Formats
refusal | a format that cannot be read is another one
| lua/format::test_a_format_that_is_no_number_is_lost
-     format = format and string.match(format, '^%d+$') or false
set_limit.lua | a limit is set in a queue of another format
| lua/format::test_another_number_is_another_format
- if refused then
+ if false then

# Records
write | a record with a reason is written as a plain one | lua/records
- and names == task.group .. '\t\t\t' and
+ and
take | the bytes bound counts a line feed | lua/pop
- rest = counted and rest + 1
+ rest = counted and rest

# Daemons
Listener.wait | a marker that always has a wake-up hides the others
| daemon/scheduler::test_no_marker_hides_another
-             self._asked.served(self.markers[marker.number])
+             pass

# Results and progress
keep_results | a result outlives its time where others are kept | lua/results
-     if number and tonumber(expires) <= now then
+     if false then
keep_results | results have no cap of bytes | lua/results
- and bytes <= MOST_BYTES
+ and true
results_in | what was not finished has a result | lua/results
- and not passed[i] and not
+ and not
progress.lua | an old delivery is not told that its lease is lost | lua/results
- task and 1 or refused
+ 1

# Web applications
_Follower.tell | a stream repeats what it has told | contract/fastapi
- if answer != self.last:
+ if True:
push_on_commit | a rollback pushes all the same | daemon/django
- transaction.on_commit(pending, using=using)
+ pending()

# Unsettled
to_send_again | an end that the server did not hear of is not sent again | contract/worker_refused
-             again += (each._replace(budgets=(), kept="" if full else each.kept) for each in done)
+             pass
cancel.lua | a dead task can be cancelled | lua/cancel
- if not task or redis.call('ZSCORE', dead, id) then
+ if not task then
purge.lua | a purge leaves heads that are gone | lua/purge
-     leave(id, task)
beat.lua | a quiet worker takes tasks once its queue was dropped | lua/quiet contract/heartbeats
- is_new and quiet == '1' and
+ false and

# Errors and lapses
keep_error | more than eight errors are kept | lua/errors
- #lines < MOST_ERRORS and
+ true and
keep_error | an error has no bound of bytes | lua/errors
- string.sub(text, 1, MOST_TEXT)
+ text
forget | the errors of a task stay after its cancel, or the end of its dead letter | lua/errors
-     redis.call('HDEL', errors, id)
+
upkeep | a task may lapse once more than its push says | lua/errors
- lapses + 1 >= tonumber(bound)
+ lapses + 0 >= tonumber(bound)

# Dashboard
Guard.require_own_page | the dashboard takes actions from other sites | web/web_safety
- site == "same-origin" and (own or origin in (None, "null"))
+ site != "cross-site"
Guard.form_token | a form of the dashboard is good in any session | web/web_safety
- return self._signed("form", session)
+ return self._signed("form")
Guard.may | the dashboard does not ask an application | web/web_safety
- self.access.allow is None or bool(self.access.allow(request, action, queue))
+ True
_endpoint.endpoint | the dashboard admits strangers | web/web_safety
-             site.guard.admit(request, open_to_all=public)
pages.py | the dashboard searches payloads that it does not show | web/web_pages
-         payloads=call.site.guard.access.payloads,
-         most=
+         most=
Guard.require_same_origin | a token of the dashboard is good without its session | web/web_safety
- if not session or not hmac.compare_digest(
+ if session and not hmac.compare_digest(
Jobs.confirm | the dashboard confirms an action for another number | web/web_actions
- if expected != job.count:
+ if expected < job.count:
answered | a dashboard that only shows acts | web/web_safety
- if view is not forms.check:
+ if view is forms.check:
Guard.admit | the dashboard answers to any host | web/web_safety
- if "*" not in hosts and name.lower() not in hosts:
+ if "*" not in hosts and not name:
environment.made | the dashboard does not escape | web/web_pages
- autoescape=True
+ autoescape=False

# Permits
acquire.lua | a booking goes into the next period of a quota | lua/acquire
- shuts(period_over(scopes, at))
acquire.lua | a booking that was closed keeps its lease | lua/acquire
- elseif held ~= '' then
-   settle(held)
+ elseif false then
+   settle(held)
charge | a booking is charged as if it were now | lua/acquire
- local rules, at = gate.rules, moment or instant
+ local rules, at = gate.rules, instant
acquire.lua | a booking holds though its group was closed | lua/acquire
- booked >= instant - 1000 and opening == 0 and not probing
+ booked >= instant - 1000
turn_of | callers leave no turn to tasks | lua/acquire
- instant < booked[3] + TURN_MS
+ false
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
require_safe_way | an embedded server is put below a directory that all may write
| daemon/server::test_a_directory_that_others_may_replace_is_refused
| daemon/server::test_a_directory_that_nobody_else_can_replace_is_used
- elif writable and not status.st_mode & stat.S_ISVTX:
+ elif writable and status.st_mode & stat.S_ISVTX:

# Traces
safely | telemetry that fails stops a worker | contract/otel
-     except Exception as error:
-         if type_name(error) not in _told:
+     except LookupError as error:
+         if type_name(error) not in _told:

# Moving
hold | a moving window forgets what has not left | lua/moving
- parts.drop(window, (instant - length_of(gate, rule)) / rule.tick)
+ parts.drop(window, (instant - rule.per * 0.9) / rule.tick)
opens | a moving window grants one unit more | lua/moving
- window.sum + units - rule.rate, window.sum
+ window.sum + units - rule.rate - 1, window.sum
recount | a moving window gives back of its newest slot | lua/moving
- found[n][1] < tick do
+ found[n + 1] do
hold | a moving window that is lost is empty | lua/moving
- if spent or not window.paid or window.paid > 0 and not (since and body) then
+ if spent then
opens_at | a moving window keeps nothing for others | lua/moving
- moving().opens(gate, i, units + rule.reserve)
+ moving().opens(gate, i, units)

# Batches
Results._locked.same | an answer goes into a file that was replaced | unit/batch
- same = os.stat(self.path).st_ino == os.fstat(file).st_ino
+ same = True
target | a line of a batch may name another host | unit/batch
- if urlsplit(full)[:2] != urlsplit(url)[:2]:
+ if urlsplit(full)[:1] != urlsplit(url)[:1]:
Results._append | dpq run acks before its answer is on the disk | unit/batch
-                 os.fsync(file)
Results._append | a failed write leaves half a line of a result | unit/batch
- os.ftruncate(file, end)
+ pass
Results._append.data | a result is written behind a line that a crash has cut | unit/batch
- data = b"\n" + data
+ pass
seconds_to_wait.is_told | a 503 without a time is a limit | unit/rate_headers
- is_told = asked is not None
+ is_told = overloaded or asked is not None

# Transports
Permit._logged | an answer that cannot be reported is lost | contract/transport_outages
- queue, host = self
+ raise
+             queue, host = self
Exchange.send | an interrupt of a report leaves the answer open | contract/transport_outages
-                 close(response)
+                 pass
AsyncExchange.send | a cancelled report leaves its permit | contract/transport_outages
-                 await self.end(error)
-             finally:
+                 pass
+             finally:
Exchange.send | an error of the client leaves its permit | contract/transport_outages
-         except BaseException as error:
-             self.end(error)
+         except BaseException:
Outage.begin | requests pass though they are to raise | contract/transport_outages
- not self._passes or forbidden(error)
+ forbidden(error)
Outage.asks | each request asks a limiter that is away | contract/transport_outages
- not self._passed or now >= self._ask_at
+ True
Options.permit_for.member | a request to a pool may use any key | contract/transport_pools
- member = UNKNOWN_MEMBER
+ member = None
TransportBase._request_to_send | a redirect of httpx carries the key to another host
| contract/transport_pools
-         return sent
+         return request
Adapter.send.sent | a redirect of requests carries the key to another host
| contract/transport_pools
- sent = request.copy()
+ sent = request
judge | tasks take the lease of a caller who must be this member | lua/acquire_members
-  or mate and callers().kept(mate, score, raw) or at
+  or at
BodyReader._unpacked | a packed body fills the memory | unit/usage::test_memory_is_bounded
- decompress(part, STEP_BYTES)
+ decompress(part)
Exchange._tell_spent | a function that fails spoils the answer | contract/true_up_http
-         except Exception as error:  # the caller's function: its
+         except MemoryError as error:  # the caller's function: its

# Contact
base.py | an import of DPQ loads pydantic | unit/import
- from dpq.queue.refusals import log_refused
+ from dpq.queue.refusals import log_refused
+ import pydantic
existing | a misspelt queue looks empty | daemon/cli
- if missing and not awaited:
+ if missing and awaited:
Loader._remove | a finished batch takes a queue that was there before
| daemon/cli_run::test_a_queue_that_was_there_before_stays
-         if self._owns:
+         if True:

# Bounds
call_producers | a full queue calls nobody | lua/room
- '[' .. line, '(\14' .. group
+ '[' .. line .. '9', '(\14' .. group
make_room | a pop makes no room in its group | lua/room
- vacated[string.match(metas[i], GROUP) or ''] = true
+ vacated[''] = true
drop_worst | a push pays for all tasks that have come back | lua/room
- math.min(count, size_of(group) - most)
+ size_of(group) - most

# The verdict
past | a closing that is over still counts | lua/search
- return low
+ return 0
rest | a consumer that waits is not seen | lua/search daemon/verdicts::test_each_state_is_found
- redis.call('HSET', conf, 'asked', stamp)
+ redis.call('HDEL', conf, 'asked')
"""


def test_file(word: str) -> str:
    """Make the argument of pytest: `lua/push::test_x` is tests/lua/test_push.py::test_x."""
    return re.sub(r"^((?:\w+/)*)(\w+)", r"tests/\1test_\2.py", word)


MUTANTS = [
    Mutant(**change, tests=tuple(map(test_file, rest.split())))
    for change, rest in read_changes(LISTED)
]
