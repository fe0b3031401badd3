"""What a search learns before its first proposal: the target, its space and its budget."""

from tunekit.errors import BudgetTooSmallError, TargetError, TunekitError
from tunekit.predict.throughput.boundary import fit_boundary
from tunekit.predict.throughput.observation import observations
from tunekit.records.config import TrainConfig
from tunekit.records.details import Detail
from tunekit.records.run import SearchOptions
from tunekit.records.trial import Failure, OutcomeKind, TrialRole
from tunekit.session.own_settings import is_not_followed, own_settings
from tunekit.session.predicted import missing_trace_config, trace_details, with_starting_config
from tunekit.session.search_session import SearchSession
from tunekit.session.session import NOT_READ, target_error
from tunekit.trial.binding_syntax import how_text
from tunekit.tune.budget import budget_s_of
from tunekit.tune.space import build_space, is_batch_variant, nearest

_BASELINE_DETAILS = (Detail.QUEUE, Detail.SYNCS, Detail.PEAKS, Detail.FLOORS)
"""What the first trial looks at beyond its rate: predictions for other configs follow from it."""


def learn_target(search: SearchSession) -> None:
    """Run the baseline, and smaller batches if it runs out of memory, until one is measured."""
    if search.trials.baseline is None:
        data = () if search.found.options.skip_data_check else (Detail.DATA,)
        details = (*_BASELINE_DETAILS, *trace_details(search.found, search.outside), *data)
        search.trial(TrialRole.BASELINE, None, "the script as it is", details=details)
    baseline = search.trials.baseline
    assert baseline is not None
    is_unread = baseline.config is None or search.trials.discovery is None
    if baseline.failure is not None and (is_unread or not baseline.failure.kind.is_memory):
        raise _refused_target(baseline.failure, search.found.options)
    if baseline.config is None or is_unread:
        raise TargetError(NOT_READ)
    if search.left_s <= 0 and len(search.records) == 1:
        raise BudgetTooSmallError(
            f"the baseline alone took {baseline.duration_s:.0f} s of the budget of "
            f"{search.found.known_budget_s:.0f} s; use --budget {round(baseline.duration_s * 12)}s or more"
        )
    _shrink_until_measured(search, baseline.config)


def _shrink_until_measured(search: SearchSession, config: TrainConfig) -> None:
    while not any(record.measurement for record in search.records):
        last, discovery = search.records[-1].failure, search.trials.discovery
        needs_others = search.found.options.asks_for_batch_size or (last and not last.kind.is_memory)
        if discovery and discovery.complete and needs_others:
            return  # the search tries other knobs
        if config.batch_size == 1:
            why = f": {last.kind}, {last.message}" if last else ""
            raise TargetError(f"no batch size down to 1 could be measured{why}; see the trials' output.log")
        config = config.changed(batch_size=max(1, config.batch_size // 2))
        if all(record.config != config for record in search.records):
            if search.left_s <= 0:
                raise BudgetTooSmallError(
                    f"the baseline ran out of memory, and the budget of {search.found.known_budget_s:.0f} s "
                    f"ended before batch_size {config.batch_size} could be tried; use a longer --budget"
                )
            search.try_candidate(config, "the baseline ran out of memory: half its batch")


def bind_own_settings(search: SearchSession) -> None:
    """Bind knobs to the script's own settings of them; the first trial that uses one tests it."""
    if search.found.space:
        return  # it goes on as it began
    target = search.found.target
    found = [places[0] for places in own_settings(search.found, target).values()]
    search.bind((*target.bindings, *found))
    if search.loader is None:
        for one in found:
            search.say(f"no DataLoader: {one.knob} is read and set by {how_text(one)}")


def trace_other_size(search: SearchSession) -> None:
    """Trace a script that makes its batches itself at a second size, if its first was traced."""
    config = missing_trace_config(search.found)
    if config is not None and search.left_s > 0:
        purpose = "the second size of its steps, for predictions"
        search.trial(TrialRole.TRACE, config, purpose, details=(Detail.TRACE,))


def require_length(search: SearchSession) -> None:
    """Refuse to look for the shortest training where the trials do not tell how long it is."""
    if search.planned.judged_by_finish and search.planned.samples is None:
        raise TargetError(
            "--objective finish-time needs the samples of the planned training, but an epoch has no known "
            "length here (an IterableDataset, or len() of its loader fails); give --planned-steps instead of "
            "--epochs"
        )


def set_space(search: SearchSession) -> None:
    """Set the knobs and values to search, and the config to begin with on a GPU that is not here."""
    # By the first trial alone, so that a resumed search has the same space.
    first = next((record for record in search.records if record.measurement), None)
    context = search.search_context(fit_boundary(observations([first])) if first else None)
    search.change(space=build_space(context, search.found.options))
    if search.outside is not None:
        trials_folder = search.folder.trials_folder
        search.found = with_starting_config(search.found, search.here, search.outside, trials_folder)
    search.show_space()


def set_budget(search: SearchSession) -> None:
    """Set the budget that the user left open; say of one that was given what it has no room for."""
    search.change(budget_s=budget_s_of(search.found))
    if (said := search.time.said_at_start) is not None:
        search.say(said)


def check_batch_binding(search: SearchSession) -> None:
    """Try another batch size first where only a binding sets it, or other hosts rely on the binding."""
    sizes = next(entry for entry in search.found.space if entry.knob == "batch_size")
    baseline, binding = search.baseline_config, search.found.target.binding_of("batch_size")
    is_found = binding is not None and not binding.is_typed
    rests_on_it = is_found and (search.store.host_name is not None or not search.can_set_batch)
    if not sizes.is_searched or (search.loader is not None and not rests_on_it):
        return
    others = [one for one in search.records if one.config and is_batch_variant(one.config, baseline)]
    if not others and search.has_room_beside(()) and search.left_s > 0:
        batch_size = max(1, baseline.batch_size // 2) if baseline.batch_size > 1 else 2
        config = nearest(search.found.space, baseline.changed(batch_size=batch_size))
        if config.batch_size != baseline.batch_size:
            others = [search.try_candidate(config, "another batch size, to see that it reaches the loop")]
    for one in others:
        if search.loader is not None and is_not_followed(one) and not search.can_set_batch:
            search.bind(search.bindings_but("batch_size"))
            set_space(search)
        elif search.loader is None and one.failure and one.failure.kind is OutcomeKind.KNOB_NOT_APPLIED:
            raise TargetError(
                f"another batch size does not reach the loop as it is bound: {one.failure.message}; bind "
                "another place, or take batch_size out with --bind batch_size=fixed and say "
                "--samples-per-step N"
            )


def _refused_target(failure: Failure, options: SearchOptions) -> TunekitError:
    """Return the error that says why a target whose baseline failed can't be tuned."""
    budget_s = options.budget_s
    if failure.kind is OutcomeKind.TIMEOUT and budget_s is not None and budget_s <= options.trial_limit_s:
        return BudgetTooSmallError(
            f"the baseline was not measured within the budget of {budget_s:.0f} s; give --budget 15m or more"
        )
    return target_error(failure)
