"""A filter of system calls for the sandbox, as the bytes of a classic BPF program.

The filter refuses what code in the sandbox never needs and attacks on the kernel begin with: new namespaces,
mounts, tracing, keys, kernel modules, and the large interfaces with a history of holes. It also refuses
memory that belongs to no process and to no folder, because the guard could not count it: shared segments,
semaphores, queues of events, pages that only a pipe holds, shared memory without a file, attributes of files
(a list of rights takes 128 KiB), policies of memory, tables of locks, rules and filters. It allows sockets
within the machine only, and keeps the buffers of sockets and pipes as small as they begin.
"""

import errno
import platform
import struct
from typing import Final, NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_KILL = 0x80000000
_NUMBER, _ARCHITECTURE = 0, 4
_FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT, _FOURTH_ARGUMENT = 16, 24, 32, 40
_AF_UNIX, _SOL_SOCKET = 1, 1
_SOCKET_MEMORY: Final = (7, 8, 26, 51)
"""SO_SNDBUF, SO_RCVBUF, SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF."""
_F_SETPIPE_SZ: Final = 1031
_PR_FUTEX_HASH: Final = 78
_SHARED, _ANONYMOUS, _HUGE_PAGES = 0x01, 0x20, 0x40000
"""MAP_SHARED (also in MAP_SHARED_VALIDATE), MAP_ANONYMOUS, MAP_HUGETLB."""
_FIRST_UNKNOWN: Final = 453
"""From here on calls are newer than this filter. Programs do without what a kernel does not have."""
_X32 = 0x40000000
_NEW_NAMESPACES: Final = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""


class _Machine(NamedTuple):
    audit: int
    clone: int
    clone3: int
    socket: int
    socketpair: int
    setsockopt: int
    fcntl: int
    mmap: int
    prctl: int
    refused: tuple[int, ...]


_MACHINES: Final = {
    # ptrace, pivot_root, mount, umount2, swapon, swapoff, reboot, init_module, delete_module, quotactl,
    # kexec_load, add_key, request_key, keyctl, unshare, move_pages, perf_event_open, name_to_handle_at,
    # open_by_handle_at, setns, process_vm_readv, process_vm_writev, kcmp, finit_module, kexec_file_load,
    # bpf, userfaultfd, io_uring_setup, io_uring_enter, io_uring_register, open_tree, move_mount, fsopen,
    # fsconfig, fsmount, fspick, mount_setattr, memfd_create, memfd_secret, shmget, msgget, mq_open, semget,
    # inotify_init, inotify_init1, inotify_add_watch, fanotify_init, vmsplice, splice, tee, io_setup,
    # pidfd_getfd, landlock_create_ruleset, landlock_add_rule, landlock_restrict_self, setxattr, lsetxattr,
    # fsetxattr, mbind, set_mempolicy, migrate_pages, set_mempolicy_home_node, seccomp
    "x86_64": _Machine(
        0xC000003E,
        *(56, 435),
        *(41, 53, 54, 72, 9, 157),
        (
            *(101, 155, 165, 166, 167, 168, 169, 175, 176, 179, 246, 248, 249, 250, 272, 279, 298, 303),
            *(304, 308, 310, 311, 312, 313, 320, 321, 323, 425, 426, 427, 428, 429, 430, 431, 432, 433, 442),
            *(319, 447, 29, 68, 240, 64, 253, 294, 254, 300, 278, 275, 276, 206, 438, 444, 445, 446),
            *(188, 189, 190, 237, 238, 256, 450, 317),
        ),
    ),
    "aarch64": _Machine(
        0xC00000B7,
        *(220, 435),
        *(198, 199, 208, 25, 222, 167),
        (
            *(117, 41, 40, 39, 224, 225, 142, 105, 106, 60, 104, 217, 218, 219, 97, 239, 241, 264, 265, 268),
            *(270, 271, 272, 273, 294, 280, 282, 425, 426, 427, 428, 429, 430, 431, 432, 433, 442),
            *(279, 447, 194, 186, 180, 190, 26, 27, 262, 75, 76, 77, 0, 438, 444, 445, 446),
            *(5, 6, 7, 235, 237, 238, 450, 277),
        ),
    ),
}


def program() -> bytes | None:
    """The filter for this machine; None for a kind of machine whose calls are not known here."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return None
    refuse, no_such_call = _REFUSE | errno.EPERM, _REFUSE | errno.ENOSYS
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, machine.audit, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        # The second table of numbers that x86 has would go round the first.
        _step(_AT_LEAST, _X32, 0, 1),
        _step(_RETURN, refuse),
        # Its flags are in memory, where a filter cannot look, so that libraries have to use `clone`.
        _step(_EQUAL, machine.clone3, 1, 0),
        _step(_AT_LEAST, _FIRST_UNKNOWN, 0, 1),
        _step(_RETURN, no_such_call),
    ]
    for number in machine.refused:
        steps += [_step(_EQUAL, number, 0, 1), _step(_RETURN, refuse)]
    return b"".join([*steps, *_rules_for_arguments(machine, refuse)])


def _rules_for_arguments(machine: _Machine, refuse: int) -> list[bytes]:
    """Steps for the calls that only some arguments make dangerous, and then one that allows all others."""
    steps: list[bytes] = []
    for number in (machine.socket, machine.socketpair):
        steps += [
            _step(_EQUAL, number, 0, 4),
            _step(_LOAD, _FIRST_ARGUMENT),
            _step(_EQUAL, _AF_UNIX, 0, 1),
            _step(_RETURN, _ALLOW),
            _step(_RETURN, _REFUSE | errno.EAFNOSUPPORT),
        ]
    options = [_step(_EQUAL, option, 0, 1) + _step(_RETURN, refuse) for option in _SOCKET_MEMORY]
    steps += [
        _step(_EQUAL, machine.setsockopt, 0, 5 + 2 * len(options)),
        _step(_LOAD, _SECOND_ARGUMENT),
        _step(_EQUAL, _SOL_SOCKET, 1, 0),
        _step(_RETURN, _ALLOW),
        _step(_LOAD, _THIRD_ARGUMENT),
        *options,
        _step(_RETURN, _ALLOW),
        *_refuse_if(machine.fcntl, _SECOND_ARGUMENT, _EQUAL, _F_SETPIPE_SZ),
        _step(_EQUAL, machine.mmap, 0, 6),
        _step(_LOAD, _FOURTH_ARGUMENT),
        _step(_ANY_BIT, _HUGE_PAGES, 2, 0),
        _step(_ANY_BIT, _ANONYMOUS, 0, 2),
        _step(_ANY_BIT, _SHARED, 0, 1),
        _step(_RETURN, refuse),
        _step(_RETURN, _ALLOW),
        *_refuse_if(machine.prctl, _FIRST_ARGUMENT, _EQUAL, _PR_FUTEX_HASH),
        *_refuse_if(machine.clone, _FIRST_ARGUMENT, _ANY_BIT, _NEW_NAMESPACES),
        _step(_RETURN, _ALLOW),
    ]
    return steps


def _refuse_if(call: int, argument: int, test: int, value: int) -> list[bytes]:
    """Steps that refuse this call if an argument passes the test, and allow it otherwise."""
    return [
        *(_step(_EQUAL, call, 0, 4), _step(_LOAD, argument)),
        *(_step(test, value, 0, 1), _step(_RETURN, _REFUSE | errno.EPERM), _step(_RETURN, _ALLOW)),
    ]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
