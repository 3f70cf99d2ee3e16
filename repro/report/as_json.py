"""Runs as the versioned envelope that `--json` prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from repro.case import Case
from repro.outcome import Outcome, Run, Seconds

RUN_SCHEMA = "repro.run/1"
LIST_SCHEMA = "repro.list/1"


def outcome_object(outcome: Outcome) -> dict[str, Any]:
    """An outcome as it stands in every envelope."""
    return {
        "kind": outcome.kind,
        "stage": outcome.stage,
        "pass": outcome.pass_name,
        "side": outcome.side,
        "how": outcome.how,
        "exceptions": list(outcome.exceptions),
        "message": outcome.message,
        "function": outcome.function,
        "signature": outcome.signature,
        "evidence": outcome.evidence,
        "reason": outcome.reason,
        "hint": outcome.hint,
        "phases": list(outcome.phases),
        "frames": [
            {"file": frame.file, "line": frame.line, "function": frame.function}
            for frame in outcome.frames
        ],
        "ladder": dict(outcome.ladder),
        "signal": outcome.signal,
        "rank": outcome.rank,
        "notes": list(outcome.notes),
    }


def _seconds(seconds: Seconds) -> dict[str, float | None]:
    values = {
        "install": seconds.install,
        "import": seconds.import_,
        "eager": seconds.eager,
        "compile": seconds.compile,
        "total": seconds.total,
    }
    return {key: None if value is None else round(value, 3) for key, value in values.items()}


def run_object(run: Run) -> dict[str, Any]:
    """One run as it stands in the envelope."""
    return {
        "case": run.case,
        "build": {
            "spec": run.build.spec,
            "version": run.build.version,
            "variant": run.build.variant,
            "git_version": run.build.git_version,
            "python": run.build.python,
        },
        "device": run.device,
        "backend": run.backend,
        "repeat": run.repeat,
        "outcome": outcome_object(run.outcome),
        "seconds": _seconds(run.seconds),
        "log": run.log,
    }


def runs_json(runs: Sequence[Run], interrupted: bool = False) -> str:
    """The object that `repro run --json` prints."""
    envelope: dict[str, Any] = {"schema": RUN_SCHEMA, "runs": [run_object(run) for run in runs]}
    if interrupted:
        envelope["interrupted"] = True
    return json.dumps(envelope, indent=2, ensure_ascii=False)


def cases_json(cases: Sequence[Case]) -> str:
    """The object that `repro list --json` prints."""
    listed = [
        {
            "case": case.name,
            "title": case.title,
            "issue": case.issue,
            "devices": list(case.devices),
            "ranks": case.ranks,
            "backend": case.backend,
            "path": str(case.path),
        }
        for case in cases
    ]
    return json.dumps({"schema": LIST_SCHEMA, "cases": listed}, indent=2, ensure_ascii=False)
