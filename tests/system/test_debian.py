"""The Debian package, made from the wheels that `make build` has made: what is in it, and installed, used and purged.

It is installed into a copy of this system that is on no disk (an overlay, in a mount namespace of its own), so nothing
is left to clean up, whatever fails.
"""

import os
import re
import shutil
import subprocess

import pytest
from harness import ROOT, sh

INSIDE = """
set -e
root=$(mktemp -d)
mount -t tmpfs tmpfs "$root"
mkdir "$root/upper" "$root/work" "$root/system"
mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/system"
for folder in dev proc; do mount --rbind "/$folder" "$root/system/$folder"; done
mount -t tmpfs tmpfs "$root/system/tmp"
cp "$1" "$root/system/tmp/maple.deb"
printf '%s' "$2" > "$root/system/tmp/steps"
exec chroot "$root/system" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 sh -e /tmp/steps
"""

STEPS = """
export DEBIAN_FRONTEND=noninteractive
cd /
ours() { find /etc /home /lib /opt /run /srv /usr /var -xdev -name '*maple*' | sort; }
ours > /tmp/before
dpkg --install /tmp/maple.deb > /tmp/log 2>&1 || { cat /tmp/log; exit 1; }
echo "== version"; maple --version
echo "== user"; getent passwd maple | cut -d: -f1,6,7
echo "== configuration"; maple config check /etc/maple/maple.toml
echo "== completions"; bash -c '. /usr/share/bash-completion/completions/maple; complete -p maple'
echo "== policy"
maple run /usr/share/doc/maple-sdn/examples/policies/secure_routing.py --emulate ring:4 --traffic 1s
echo "== upgrade"
echo '# ours' >> /etc/maple/maple.toml
mkdir -p /var/lib/maple
touch /var/lib/maple/state.redb
dpkg --force-confold --install /tmp/maple.deb > /tmp/log 2>&1 || { cat /tmp/log; exit 1; }
tail -n 1 /etc/maple/maple.toml
ls /var/lib/maple
echo "== removed"
dpkg --remove maple-sdn > /tmp/log 2>&1 || { cat /tmp/log; exit 1; }
ls /etc/maple /var/lib/maple
echo "== purged"
dpkg --purge maple-sdn > /tmp/log 2>&1 || { cat /tmp/log; exit 1; }
ours | comm -13 /tmp/before -
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package of the newest wheels."""

    def newest(name):
        wheels = sorted((ROOT / "target/wheels").glob(f"{name}-*.whl"), key=os.path.getmtime)
        assert wheels, f"there is no wheel of {name}: `make build` makes one"
        return wheels[-1]

    folder = tmp_path_factory.mktemp("debian")
    # The licences of dependencies come from Cargo, which takes part in `make dist` only.
    command = [ROOT / "contrib/debian/build", newest("maple_sdn"), newest("maple_importers"), ROOT / "LICENSE", folder]
    subprocess.run(command, check=True, timeout=300, env={**os.environ, "DPKG_DEB_COMPRESSOR_LEVEL": "1"})
    (made,) = folder.iterdir()
    return made


def test_it_has_what_an_administrator_looks_for(package):
    architecture = sh("dpkg", "--print-architecture").strip()
    assert re.fullmatch(rf"maple-sdn_[\d.]+-1_{architecture}\.deb", package.name)
    files = {line.split()[5][1:] for line in sh("dpkg-deb", "--contents", package).splitlines()}
    assert {
        "/usr/bin/maple",
        "/usr/lib/python3/dist-packages/maple/_maple.abi3.so",
        "/lib/systemd/system/maple.service",
        "/lib/systemd/system/maple.socket",
        "/etc/maple/maple.toml",
        "/usr/share/man/man1/maple.1.gz",
        "/usr/share/man/man1/maple-run.1.gz",
        "/usr/share/bash-completion/completions/maple",
        "/usr/share/zsh/vendor-completions/_maple",
        "/usr/share/fish/vendor_completions.d/maple.fish",
        "/usr/share/doc/maple-sdn/copyright",
        "/usr/share/doc/maple-sdn/licences.txt.gz",
        "/usr/share/doc/maple-sdn/examples/policies/secure_routing.py",
        "/usr/share/doc/maple-sdn/examples/prometheus/alerts.yml",
    } <= files
    assert sh("dpkg-deb", "--info", package, "conffiles").split() == ["/etc/maple/maple.toml"]
    depends = sh("dpkg-deb", "--field", package, "Depends")
    assert "python3:any (>= 3.10~)" in depends and "libc6" in depends


def test_lintian_finds_no_error(package):
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error", package], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_installed_runs_a_policy_and_is_purged(package):
    if shutil.which("unshare") is None:
        pytest.fail("unshare is not installed")
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", INSIDE, "sh", package, STEPS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(re.findall(r"^== (\w+)\n(.*?)(?=^== |\Z)", done.stdout, re.MULTILINE | re.DOTALL))
    assert told["version"].startswith("maple ")
    assert told["user"] == "maple:/var/lib/maple:/usr/sbin/nologin\n"
    assert told["configuration"].startswith("/etc/maple/maple.toml")
    assert "-F _maple" in told["completions"]
    assert "summary" in told["policy"]
    assert told["upgrade"] == "# ours\nstate.redb\n", "an upgrade keeps both"
    assert told["removed"] == "/etc/maple:\nmaple.toml\n\n/var/lib/maple:\nstate.redb\n"
    assert told["purged"] == "", "nothing is left"
