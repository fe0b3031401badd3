"""A whole run as a search leaves it, put together from its trials."""

from build_loops import work
from build_records import baseline_record, config, confirm_records, run, trial_record

from tunekit.records.run import Run
from tunekit.session.assemble import assemble


def walked() -> Run:
    """Baseline at 500 samples/s, batch 512 at twice that, confirmed in three rounds."""
    own, faster = config(), config(batch_size=512, num_workers=4)
    of_own, of_faster = ({"loader_work": work(one.batch_size / 1000)} for one in (own, faster))
    baselines = tuple(
        record.model_copy(update={"is_baseline_config": True})
        for record in confirm_records([500.0, 505.0, 495.0], own, first_number=50, **of_own)
    )
    others = tuple(
        trial_record(number, 700.0 + number, config(batch_size=96 + number)) for number in range(2, 5)
    )
    again = confirm_records([980.0, 970.0, 990.0], faster, first_number=70, **of_faster)
    first = (baseline_record(of=own, **of_own), trial_record(1, 1000.0, faster, **of_faster))
    ended = run(trials=(), why_stopped="every config of the space was tried")
    return assemble(ended, (*first, *others, *baselines, *again))
