"""Frozen records shared by all layers, one module per noun.

A module is loaded with the first of its names: `ralph memory prime` needs no records of prompts or sigils.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records.attempts import *  # noqa: F403
    from ralph.core.records.base import *  # noqa: F403
    from ralph.core.records.episodes import *  # noqa: F403
    from ralph.core.records.memories import *  # noqa: F403
    from ralph.core.records.prompts import *  # noqa: F403
    from ralph.core.records.results import *  # noqa: F403
    from ralph.core.records.rules import *  # noqa: F403
    from ralph.core.records.sessions import *  # noqa: F403
    from ralph.core.records.sigils import *  # noqa: F403
    from ralph.core.records.tasks import *  # noqa: F403
else:
    _NAMES = {
        "attempts": "Attempt AttemptOutcome ErrorType FAILED_OUTCOMES FailureCause FailureReport LIMIT_CATEGORIES"
        " ResourceUsage Run RunEvent category_word outcome_word stored_category stored_outcome",
        "base": "EPISODE_PREFIX new_feature_id new_memory_id new_run_id new_task_id now record record_fields replace"
        " timestamp",
        "episodes": "Episode EpisodeKind RecalledEpisode Speaker Turn",
        "memories": "Memory MemoryEvent MemorySource MemoryState RecalledMemory session_key",
        "prompts": "OmittedItem Prompt PromptContext PromptSection",
        "results": "AttemptResult GateResult IntegrityResult Review VerificationResult",
        "rules": "Rule StandingRule StatedRule",
        "sessions": "AgentReply AgentSession SessionEnding",
        "sigils": "FailureReportSigil HandoverSigil KnowledgeSigil LearningSigil MemorySignal Sigils SubtaskSigil",
        "tasks": "ALLOW_TESTS ASKS Difficulty Feature HeldChange NEEDS_PERSON Question Task TaskLogEntry TaskMetrics"
        " OUT_OF_RETRIES TaskStatus UNREVIEWED status_word stored_status",
    }
    _MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

    def __getattr__(name):
        """Load the module of a name that is used for the first time."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = __import__(f"{__name__}.{_MODULES[name]}", fromlist=(name,))
        value = globals()[name] = getattr(module, name)
        return value

    def __dir__():
        return [*globals(), *_MODULES]
