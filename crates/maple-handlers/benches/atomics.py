#!/usr/bin/env python3
"""Counts the atomic operations that a running controller executes, message by message, and says where they are.

One thread of the controller is stepped through instruction by instruction while switches talk to it, and each
instruction that locks the memory it changes (x86-64: a `lock` prefix, or `xchg` with memory) is counted. In a program
without `unsafe` only such an instruction, a plain atomic store, or the kernel can change memory that another thread
uses at the time.

    maple run builtin:learning-switch --workers 1 --listen 127.0.0.1:6653 &
    maple load --connect 127.0.0.1:6653 --switches 16 --warmup 10s --duration 10m &
    sleep 30; python3 crates/maple-handlers/benches/atomics.py $(pgrep -f 'maple run') --answer 80

The thread is that named `shard-0`. Messages are counted by the bytes that it writes; `--answer` says how long an
answer is. Linux on x86-64 only, as root or as the user of the controller. Some 20,000 instructions take a second.
"""

import argparse
import ctypes
import os
import subprocess
import time
from collections import Counter
from pathlib import Path

PTRACE_SINGLESTEP, PTRACE_GETREGS, PTRACE_ATTACH, PTRACE_DETACH = 9, 12, 16, 17
WALL = 0x40000000
WRITES = {1, 44}  # write and sendto
PREFIXES = {0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF2, 0xF3}
LOCK = 0xF0

REGISTERS = [
    *["r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"],
    *["orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"],
]


class Registers(ctypes.Structure):
    """`user_regs_struct` of <sys/user.h>."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in REGISTERS]


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request: int, thread: int, data: object = None) -> None:
    if LIBC.ptrace(request, thread, None, data) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace request {request}: {os.strerror(ctypes.get_errno())}")


def is_atomic(code: bytes) -> bool:
    """Whether an instruction locks the memory that it changes."""
    for at, byte in enumerate(code):
        if byte == LOCK:
            return True
        if byte in PREFIXES or byte & 0xF0 == 0x40:
            continue
        # `xchg`, where its second operand is in memory.
        return byte in (0x86, 0x87) and at + 1 < len(code) and code[at + 1] < 0xC0
    return False


def is_system_call(code: bytes) -> bool:
    return code[:2] == b"\x0f\x05"


def shard(process: int) -> int:
    """The thread that is to be looked at."""
    for task in Path(f"/proc/{process}/task").iterdir():
        if (task / "comm").read_text().strip() == "shard-0":
            return int(task.name)
    raise SystemExit(f"process {process} has no thread shard-0")


def step(thread: int, memory: int, seconds: float) -> tuple[int, Counter[int], int, int]:
    """Instructions, addresses of atomic operations, bytes written, and system calls.

    They are counted from the end of the first write that is seen in that time to that of the last, so that what one
    read brought is counted whole.
    """
    registers = Registers()
    known: dict[int, tuple[bool, bool]] = {}
    atomics: Counter[int] = Counter()
    steps, written, calls, in_write, is_first = 0, 0, 0, False, True
    whole = (0, Counter[int](), 0, 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ptrace(PTRACE_GETREGS, thread, ctypes.byref(registers))
        if in_write and ctypes.c_longlong(registers.rax).value > 0:
            if is_first:
                steps, written, calls, is_first = 0, 0, 0, False
                atomics.clear()
            else:
                written += registers.rax
                whole = (steps, +atomics, written, calls)
        at = registers.rip
        if at not in known:
            code = os.pread(memory, 15, at)
            known[at] = (is_atomic(code), is_system_call(code))
        atomic, call = known[at]
        steps += 1
        atomics[at] += atomic
        calls += call
        in_write = call and registers.rax in WRITES
        ptrace(PTRACE_SINGLESTEP, thread)
        os.waitpid(thread, WALL)
    return whole


def name(process: int, at: int) -> str:
    """What is at an address, as far as the program has symbols."""
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        span, _, offset, _, _, *path = line.split(maxsplit=5)
        low, high = (int(end, 16) for end in span.split("-"))
        if low <= at < high and path:
            place = hex(at - low + int(offset, 16))
            found = subprocess.run(["addr2line", "-Cfe", path[0], place], capture_output=True, text=True, check=False)
            return f"{(found.stdout.splitlines() or ['?'])[0]} ({Path(path[0]).name}+{place})"
    return hex(at)


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts atomic operations a message.")
    parser.add_argument("process", type=int, help="process id of the controller")
    parser.add_argument("--answer", type=int, required=True, help="bytes of an answer")
    parser.add_argument("--seconds", type=float, default=60, help="how long to look at it")
    options = parser.parse_args()
    thread = shard(options.process)
    memory = os.open(f"/proc/{options.process}/mem", os.O_RDONLY)
    ptrace(PTRACE_ATTACH, thread)
    os.waitpid(thread, WALL)
    try:
        steps, atomics, written, calls = step(thread, memory, options.seconds)
    finally:
        ptrace(PTRACE_DETACH, thread)
    answers = written / options.answer
    total = sum(atomics.values())
    print(f"{steps} instructions, {answers:.0f} answers, {calls} system calls, {total} atomic operations")
    print(f"an answer: {steps / max(answers, 1):.0f} instructions, {total / max(answers, 1):.5f} atomic operations")
    for at, count in atomics.most_common():
        print(f"{count:7}  {name(options.process, at)}")


if __name__ == "__main__":
    main()
