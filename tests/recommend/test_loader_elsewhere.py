"""How fast the loader would be on a GPU's usual machine."""

from build_fits import gpu, machine

from tunekit.recommend.loader_elsewhere import usual_instance


def test_the_loader_has_its_share_of_the_smallest_and_cheapest_machine():
    several = gpu(
        "a10g",
        22.0,
        instances=(
            machine("eight", gpus=8, vcpus=192),
            machine("dear", vcpus=16, usd_per_h=3.0),
            machine("cheap", vcpus=4, usd_per_h=1.0),
            machine("unknown", vcpus=None, usd_per_h=0.1),
        ),
    )
    found = usual_instance(several)
    assert found is not None and found.name == "cheap"
    assert usual_instance(gpu("k80", 11.0)) is None
