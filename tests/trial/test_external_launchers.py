"""Commands that have a training run where the agent is not."""

import pytest

from tunekit.trial.external_launchers import find_external_launcher


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("docker", "run", "--gpus", "all", "image", "python", "train.py"), "docker run"),
        (("/usr/bin/podman", "exec", "box", "python", "train.py"), "podman exec"),
        (("docker", "--context", "far", "run", "image"), "docker run"),
        (("sbatch", "train.sbatch"), "sbatch"),
        (("ssh", "-t", "node", "python train.py"), "ssh"),
        (("kubectl", "-n", "ml", "exec", "pod", "--", "python", "train.py"), "kubectl exec"),
        (("sudo", "-E", "docker", "run", "image"), "docker run"),
        (("timeout", "-k", "5", "10m", "ssh", "node", "train"), "ssh"),
    ],
)
def test_a_command_that_trains_elsewhere_is_known_by_its_words(command: tuple[str, ...], words: str) -> None:
    found = find_external_launcher(command)
    assert found is not None
    assert found.words == words
    assert "tunekit ... -- python train.py" in found.remedy, "whichever verb it is"


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py"),
        ("python", "ssh"),
        ("python3.11", "-m", "docker", "run"),
        ("torchrun", "--nproc_per_node", "2", "train.py"),
        ("env", "A=docker", "python", "train.py", "run"),
        ("bash", "-c", "docker pull image; python train.py"),
        ("docker", "ps"),
        ("ray", "start", "--head"),
        ("ssh", "-fN", "-L", "6006:localhost:6006", "node"),
        ("./train",),
    ],
)
def test_a_command_that_may_train_here_is_let_through(command: tuple[str, ...]) -> None:
    assert find_external_launcher(command) is None
