"""The report for a pull request: short whatever the run holds, and text as text."""

import html
import re
from typing import Any

import yaml
from build_records import config, failure, interval, recommendation, run, target, trial_record
from build_reports import full_plan, full_run, hostile_run
from build_searched import walked
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tunekit.export.yaml_config import knobs_yaml
from tunekit.records.finding import Finding, Severity
from tunekit.records.recommendation import MissingTier, Tier
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind
from tunekit.report.markdown import MAX_LINES, markdown
from tunekit.report.run import in_comment
from tunekit.trial.binding_syntax import parse_binding

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
OWN_TAGS = {
    *("h2", "p", "strong", "ul", "li", "br", "sub", "span", "code", "pre", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


def drawn(shown: Run, **more: Any) -> str:
    configs = [(one.tier.value, knobs_yaml(one, shown.target)) for one in shown.recommendations]
    return markdown(in_comment(shown, configs=configs, **more), MAX_LINES, 4)


def three_tiers(**overrides: Any) -> tuple[Any, ...]:
    """Three tiers of three configs."""
    return tuple(
        recommendation(tier, config(batch_size=64 * place, num_workers=place), **overrides)
        for place, tier in enumerate(Tier, 1)
    )


def test_the_worst_findings_come_first_and_the_others_are_counted():
    findings = tuple(
        Finding(code=f"{word}-{place}", severity=word, message="told", remedy="mend")
        for word in ("info", "warning", "error")
        for place in range(2)
    )
    text = drawn(full_run(findings=findings))
    shown = re.findall(r"- (\w+ [\w-]+): told<br>do: mend", text)
    assert shown == ["error error-0", "error error-1", "warning warning-0", "warning warning-1"]
    assert "told<br>do: mend\n  - 2 more in the report\n" in text


def test_the_configs_read_back_as_the_tiers():
    bound = target(
        bindings=tuple(parse_binding(f"{knob}=c.yaml:a.{knob}") for knob in ("batch_size", "compile"))
    )
    text = drawn(run(recommendations=three_tiers(), target=bound))
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    read = [yaml.safe_load(one) for one in re.split(r"# \w+\n", block)[1:]]
    assert [one["a"]["batch_size"] for one in read] == [64, 128, 192]
    assert [one["num_workers"] for one in read] == [1, 2, 3]


def test_a_config_that_is_too_long_is_named_instead():
    long = "\n".join(f"key_{place}: 1" for place in range(50))
    text = markdown(in_comment(walked(), configs=(("balanced", long), ("aggressive", long))))
    assert "Configs: " in text and "letters, in the report" in text
    assert "key_0" not in text


def test_a_command_is_whole_or_named():
    words = ("python", "train.py", *(f"--option-{place}=`@value`" for place in range(100)))
    text = drawn(run(target=target(command=words)))
    assert " ".join(words[:2]) in text
    assert all(f"'{word}'" in text for word in words[2:])
    assert "\n```sh\n" in text
    longer = target(command=("python", "x" * 10_000))
    assert "letters, in the report" in drawn(run(target=longer))


def has_only_its_own_lines(text: str) -> bool:
    """Return whether there are as few lines as are promised, and no text broke one of them."""
    return text.count("\n") == len(text.splitlines()) <= MAX_LINES and len(text) < 65_536


def from_texts(text: str) -> set[str]:
    """Return what a page has that only a text of somebody's can have put there: tags, mentions, links."""
    page = PARSER.render(text)
    outside = re.sub(r"<(pre|code)\b.*?</\1>", "", page, flags=re.DOTALL)
    tags = set(re.findall(r"</?([a-z][a-z0-9]*)", page))
    return (tags - OWN_TAGS) | set(re.findall(r"@\w|#\d|://|\bwww\.", html.unescape(outside)))


def test_hostile_texts_are_texts():
    text = drawn(hostile_run(), plan=full_plan())
    assert has_only_its_own_lines(text)
    assert from_texts(text) == set()
    assert "letters more)" in text


nasty = st.text(alphabet="`|<>@#[]()!*_~$:&;\\/\n -+=.1aw", max_size=60) | st.just("@a" * 500)


@given(st.data())
def test_any_text_in_any_part_is_held_to_its_bounds(data: st.DataObject):
    def text() -> str:
        return data.draw(nasty)

    kinds = [kind for kind in OutcomeKind if kind is not OutcomeKind.REFUSED]
    shown = full_run(
        target=target(name=text()[:200] or "t", command=("python", text())),
        measured_on=text(),
        recommendations=three_tiers(speedup=interval(2.0)),
        trials=tuple(
            trial_record(place, None, overrides={"failure": failure(kind, message=text(), remedy=text())})
            for place, kind in enumerate(kinds)
        ),
        missing_tiers=tuple(MissingTier(tier=tier, reason=text()) for tier in Tier),
        findings=tuple(
            Finding(code="some", severity=data.draw(st.sampled_from(Severity)), message=text(), remedy=text())
            for _ in range(data.draw(st.integers(0, 9)))
        ),
    )
    drawn_text = drawn(shown, plan=full_plan())
    assert has_only_its_own_lines(drawn_text)
    assert from_texts(drawn_text) == set()
