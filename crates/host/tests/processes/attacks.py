"""What a malicious server tries. Prints a line for each attack: its name, and `ok` if it got what it wanted, or why not."""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import signal
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
victim, file, door, port, own_port = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
X86 = platform.machine() == "x86_64"
NUMBERS = {
    "clone": (56, 220), "ioprio_set": (251, 30), "kcmp": (312, 272), "migrate_pages": (256, 238), "add_key": (248, 217),
    "keyctl": (250, 219), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265), "finit_module": (313, 273), "kexec_load": (246, 104), "process_madvise": (440, 440),
    "io_uring_setup": (425, 425), "clone3": (435, 435), "pidfd_open": (434, 434), "setns": (308, 268), "fsopen": (430, 430),
    "mount_setattr": (442, 442), "memfd_secret": (447, 447), "move_pages": (279, 239), "pivot_root": (155, 41), "newest": (500, 500),
}


def call(name, *arguments):
    number = NUMBERS[name][0 if X86 else 1]
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def plain(function, *arguments):
    if getattr(libc, function)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), function)


def limit(pid, resource):
    new = struct.pack("QQ", 0, 0)
    plain("prlimit", pid, resource, ctypes.c_char_p(new), None)


def cloned():
    # A child of its own user namespace would return 0 here: it must not go on as this program.
    if call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


def second_numbers():
    if X86 and libc.syscall(ctypes.c_long(0x40000000 | 39)) < 0 or not X86:
        raise OSError(errno.ENOSYS, "x32")


def other_architecture():
    if not X86:
        raise OSError(errno.ENOSYS, "no other architecture")
    child = os.fork()
    if child == 0:
        code = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise OSError(errno.EPERM, "killed")


def connect(kind, protocol):
    with socket.socket(socket.AF_INET, kind, protocol) as s:
        s.settimeout(2)
        s.connect(("127.0.0.1", port))


def first_packet():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.sendto(b"x", 0x20000000, ("127.0.0.1", port))


def listens():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.listen()
        if s.getsockname()[1] == 0:
            raise OSError(errno.EPERM, "no port")


def binds():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.bind(("127.0.0.1", own_port))


def another_protocol():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.IPPROTO_TCP, 31, b"smc")


def opens(family, kind, protocol=0):
    return lambda: socket.socket(family, kind, protocol).close()


def through_the_door():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect(door)


def abstract():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect("\0" + door)


def capabilities():
    for line in open("/proc/self/status"):
        if line.startswith(("CapEff", "CapPrm", "CapInh", "CapAmb")) and int(line.split()[1], 16):
            return
    raise OSError(errno.EPERM, "none")


def reads(path):
    return lambda: open(path, "rb").read(1)


def writes(path):
    return lambda: open(path, "ab").close()


def types():
    fcntl.ioctl(0, 0x5412, b"x")


def shared_segment():
    # Another user's or program's segment: the key is the victim's process id.
    plain("shmget", victim, 4096, 0)


parent = os.getppid()
DGRAM, RAW, STREAM = socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM
attacks = {
    "prlimit of the parent": lambda: limit(parent, 7),
    "prlimit of the host": lambda: limit(victim, 9),
    "priority of the host": lambda: os.setpriority(os.PRIO_PROCESS, victim, 19),
    "priority of all": lambda: os.setpriority(os.PRIO_USER, 0, 0),
    "disk priority of all": lambda: call("ioprio_set", 3, os.getuid(), 0),
    "disk priority of the host": lambda: call("ioprio_set", 1, victim, 0),
    "processors of the host": lambda: os.sched_setaffinity(victim, {0}),
    "scheduler of the host": lambda: os.sched_setscheduler(victim, os.SCHED_BATCH, os.sched_param(0)),
    "signal to the host": lambda: os.kill(victim, 0),
    "signal to the parent": lambda: os.kill(parent, 0),
    "handle of the host": lambda: call("pidfd_open", victim, 0),
    "trace the parent": lambda: plain("ptrace", 0x4206, parent, None, None),
    "trace the host": lambda: plain("ptrace", 0x4206, victim, None, None),
    "memory of the host": lambda: plain("process_vm_readv", victim, None, 0, None, 0, 0),
    "memory of the parent": lambda: plain("process_vm_readv", parent, None, 0, None, 0, 0),
    "advice to the host": lambda: call("process_madvise", 0, 0, 0, 0, 0),
    "compare with the host": lambda: call("kcmp", os.getpid(), victim, 3, 0, 0),
    "pages of the host": lambda: call("migrate_pages", victim, 0, 0, 0),
    "pages moved": lambda: call("move_pages", victim, 0, 0, 0, 0, 0),
    "user namespace": lambda: plain("unshare", 0x10000000),
    "mount namespace": lambda: plain("unshare", 0x00020000),
    "cloned namespace": cloned,
    "clone3": lambda: call("clone3", 0, 0),
    "another's namespace": lambda: call("setns", 0, 0),
    "mount": lambda: plain("mount", b"tmpfs", b".", b"tmpfs", 0, None),
    "remount": lambda: plain("mount", None, b"/", None, 32 | 4096, None),
    "new mount": lambda: call("fsopen", ctypes.c_char_p(b"tmpfs"), 0),
    "attributes of a mount": lambda: call("mount_setattr", -100, ctypes.c_char_p(b"/"), 0, 0, 0),
    "change root": lambda: os.chroot("."),
    "pivot root": lambda: call("pivot_root", ctypes.c_char_p(b"."), ctypes.c_char_p(b".")),
    "keyring": lambda: call("keyctl", 0, -3, 1),
    "key": lambda: call("add_key", ctypes.c_char_p(b"user"), ctypes.c_char_p(b"x"), ctypes.c_char_p(b"y"), 1, -2),
    "io_uring": lambda: call("io_uring_setup", 1, ctypes.create_string_buffer(200)),
    "bpf": lambda: call("bpf", 0, 0, 0),
    "performance counters": lambda: call("perf_event_open", ctypes.create_string_buffer(200), 0, -1, -1, 0),
    "page faults": lambda: call("userfaultfd", 1),
    "file by handle": lambda: call("open_by_handle_at", -100, ctypes.create_string_buffer(200), 0),
    "module": lambda: call("finit_module", 0, 0, 0),
    "another kernel": lambda: call("kexec_load", 0, 0, 0, 0),
    "secret memory": lambda: call("memfd_secret", 0),
    "unknown call": lambda: call("newest"),
    "x32": second_numbers,
    "i386": other_architecture,
    "datagrams": opens(socket.AF_INET, DGRAM),
    "datagrams of IPv6": opens(socket.AF_INET6, DGRAM),
    "datagrams of ICMP": opens(socket.AF_INET, DGRAM, 1),
    "raw": opens(socket.AF_INET, RAW, 1),
    "SCTP": opens(socket.AF_INET, STREAM, 132),
    "SCTP in order": opens(socket.AF_INET, socket.SOCK_SEQPACKET, 132),
    "DCCP": opens(socket.AF_INET, 6, 33),
    "MPTCP": opens(socket.AF_INET, STREAM, 262),
    "MPTCP of IPv6": opens(socket.AF_INET6, STREAM | socket.SOCK_CLOEXEC, 262),
    "SMC": opens(43, STREAM),
    "SMC of TCP": opens(socket.AF_INET, STREAM, 256),
    "netlink": opens(16, RAW, 15),
    "interfaces": opens(16, RAW),
    "packets": opens(17, RAW, 3),
    "virtual machine": opens(40, STREAM),
    "crypto": opens(38, socket.SOCK_SEQPACKET),
    "pair of another family": lambda: socket.socketpair(30, STREAM),
    "connect": lambda: connect(STREAM, 0),
    "connect by MPTCP": lambda: connect(STREAM, 262),
    "connect by a first packet": first_packet,
    "bind": binds,
    "listen without bind": listens,
    "another protocol on TCP": another_protocol,
    "socket of another program": through_the_door,
    "socket without a file": abstract,
    "capabilities": capabilities,
    "type into a terminal": types,
    "read a file": reads(file),
    "write a file": writes(file),
    "link a file": lambda: os.link(file, "linked"),
    "environment of the host": reads(f"/proc/{victim}/environ"),
    "environment of the parent": reads(f"/proc/{parent}/environ"),
    "memory file of the parent": reads(f"/proc/{parent}/mem"),
    "root of the parent": reads(f"/proc/{parent}/root{file}"),
    "root of this": reads(f"/proc/self/root{file}"),
    "up and out": reads("../../../../../../../.." + file),
    "passwords": reads("/etc/shadow"),
    "settings of the kernel": writes("/proc/sys/kernel/core_pattern"),
    "system requests": writes("/proc/sysrq-trigger"),
    "shared memory": writes("/dev/shm/toolrack-attack"),
    "segment of another program": shared_segment,
    "time of a file": lambda: os.utime(file, (1, 1)),
    "mode of a file": lambda: os.chmod(file, 0o777),
    "attribute of a file": lambda: os.setxattr(file, "user.attack", b"x"),
    "size of a file": lambda: os.stat(file),
}
for name, attack in attacks.items():
    try:
        attack()
        print(f"{name}: ok")
    except OSError as error:
        print(f"{name}: {errno.errorcode.get(error.errno, error)}")
