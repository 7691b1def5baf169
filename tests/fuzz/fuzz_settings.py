"""The fuzzers' settings: seconds in the suite, always the same; long with `make test-all`."""

from hypothesis import HealthCheck, Phase, settings

SOAK = settings.get_current_profile_name() == "soak"


def examples(quick: int) -> settings:
    """So many examples in the suite, and eighty times as many with `make test-all`."""
    return settings(
        max_examples=quick * 80 if SOAK else quick,
        derandomize=not SOAK,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
