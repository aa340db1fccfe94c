"""What a sandbox is asked once, before anybody's code runs in it: can this code get out?"""

from typing import Final

HOLDS: Final = "the sandbox holds"

_CODE: Final = """
import ctypes, os, socket
seen = []
if os.getuid() == 0:
    seen.append("code would run as root")
if os.path.exists(OUTSIDE):
    seen.append("a file of the machine can be seen")
try:
    if open("/proc/1/environ", "rb").read():
        seen.append("an environment can be read")
except OSError:
    pass
for name in os.listdir("/proc/self/fd"):
    try:
        if int(name) > 2 and os.fstat(int(name)):
            seen.append("a file of the gateway is open")
    except OSError:
        pass
for place in ("/proc/sys/kernel/core_pattern", "/usr/probe", "/probe", "/dev/shm/probe"):
    try:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT))
        seen.append(f"{place} can be written")
    except OSError:
        pass
try:
    socket.create_connection(("192.0.2.1", 9), 0.2)
    seen.append("there is a network")
except TimeoutError:
    seen.append("there is a network")
except OSError:
    pass
interfaces = [line.partition(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
if set(interfaces) - {"lo"}:
    seen.append("there is a network interface")
libc = ctypes.CDLL(None)
for flag in (0x10000000, 0x00020000):
    if libc.unshare(flag) == 0:
        seen.append("a namespace can be made")
        break
if libc.inotify_init1(0) != -1:
    seen.append("memory can be taken that no limit covers")
status = open("/proc/self/status").read()
if "NoNewPrivs:\\t1" not in status or "Seccomp:\\t2" not in status:
    seen.append("a limit of privileges is missing")
if "CapEff:\\t0000000000000000" not in status:
    seen.append("there are capabilities")
print("; ".join(seen) or HOLDS)
"""


def code(outside: str) -> str:
    """The code of the question; `outside` is a file that must not be seen."""
    return f"OUTSIDE, HOLDS = {outside!r}, {HOLDS!r}\n{_CODE}"
