"""The sandbox of a render worker: from here on it opens nothing, and calls the kernel for little but memory.

All that a worker needs is loaded before, and documents come to it as open descriptors: so no path is allowed, to read
or to write, and there is nothing to configure. Two walls do the same in different ways. Landlock, of the kernel's
security modules, forbids every file, TCP, and signals to others; seccomp leaves a few dozen system calls, by name.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

# ------------------------------------------------------------------------------------------------ Landlock

_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # asm-generic/unistd.h: the same on every architecture
_VERSION = 1  # linux/landlock.h, LANDLOCK_CREATE_RULESET_VERSION
_RIGHTS = ((6, 16, 2, 2), (5, 16, 2, 0), (4, 15, 2, 0), (3, 15, 0, 0), (2, 14, 0, 0), (1, 13, 0, 0))
"""linux/landlock.h: the ABI that brought them, and how many LANDLOCK_ACCESS_FS_, ACCESS_NET_ and SCOPE_ bits it has."""
_PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h


class _Ruleset(ctypes.Structure):
    """linux/landlock.h, struct landlock_ruleset_attr."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


# ------------------------------------------------------------------------------------------------ seccomp

_LIBRARY = "libseccomp.so.2"  # it knows the system calls of every architecture by name
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM  # seccomp.h, SCMP_ACT_ALLOW and SCMP_ACT_ERRNO
_EQUAL, _MASKED = 4, 7  # seccomp.h, SCMP_CMP_EQ and SCMP_CMP_MASKED_EQ
_ALL_THREADS = 4  # seccomp.h, SCMP_FLTATR_CTL_TSYNC

_CALLS = (
    *("recvmsg", "recvfrom", "sendto", "sendmsg"),  # on the wire: no other socket can be had
    *("read", "readv", "pread64", "write", "writev", "lseek", "ftruncate", "fstat", "newfstatat", "close", "dup"),
    *("brk", "munmap", "mremap", "mprotect", "madvise"),
    *("futex", "sched_yield", "sched_getaffinity", "getcpu", "restart_syscall"),
    *("clock_gettime", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "getrandom", "getpid", "gettid"),
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "exit", "exit_group"),
)
_PRIVATE, _TYPE = 0x02, 0x10F  # asm-generic/mman.h: MAP_PRIVATE, MAP_TYPE | MAP_GROWSDOWN: what RLIMIT_DATA counts
_ABOUT_DESCRIPTORS = (1, 2, 3, 1030)  # linux/fcntl.h: F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC


class _Comparison(ctypes.Structure):
    """seccomp.h, struct scmp_arg_cmp."""

    _fields_ = (("argument", ctypes.c_uint), ("how", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def enter() -> tuple[str, ...]:
    """Close the sandbox around this process, for good; what it lacks on this machine, in words for a person."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        library = None
    lacks = []
    if trouble := _landlock():
        lacks.append(f"Landlock ({trouble})")
    if trouble := _seccomp(library) if library else f"{_LIBRARY} is not installed":
        lacks.append(f"seccomp ({trouble})")
    return tuple(lacks)


def _landlock() -> str:
    """Forbid all that this kernel's Landlock can forbid, without an exception; why that can't be, or ""."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return "another thread would stay outside"
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for since, files, network, scopes in _RIGHTS:
        if since > version:
            continue
        wanted = _Ruleset((1 << files) - 1, (1 << network) - 1, (1 << scopes) - 1)
        ruleset = _libc.syscall(_CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(ctypes.sizeof(wanted)), 0)
        if ruleset < 0:  # RHEL 9 says that it has a later version than it has
            continue
        entered = _libc.syscall(_RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)
        if entered == 0:
            return ""
    return os.strerror(ctypes.get_errno())


def _seccomp(library: ctypes.CDLL) -> str:
    """Refuse every system call that is not named above, with EPERM; why that can't be, or ""."""
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_REFUSE)))

    def allow(call: str, *conditions: _Comparison) -> None:
        number = library.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:  # else this architecture does without it
            given = (_Comparison * len(conditions))(*conditions)
            library.seccomp_rule_add_array(rules, ctypes.c_uint32(_ALLOW), number, len(conditions), given)

    for call in _CALLS:
        allow(call)
    allow("mmap", _Comparison(3, _MASKED, _TYPE, _PRIVATE))
    for command in _ABOUT_DESCRIPTORS:
        allow("fcntl", _Comparison(1, _EQUAL, command))
    for call in ("kill", "tgkill"):  # abort() and faulthandler: itself, and nobody else
        allow(call, _Comparison(0, _EQUAL, os.getpid()))
    library.seccomp_attr_set(rules, _ALL_THREADS, ctypes.c_uint32(1))
    failure = library.seccomp_load(rules)
    library.seccomp_release(rules)
    return os.strerror(-failure) if failure else ""
