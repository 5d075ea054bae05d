"""What a malicious server tries. Prints a line for each attack: its name, and `ok` if it got what it wanted, or why not."""

import array
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
    "openat2": (437, 437), "fchmodat2": (452, 452), "mq_unlink": (241, 181), "mq_open": (240, 180), "quotactl": (179, 60), "syslog": (103, 116),
    "move_mount": (429, 429), "open_tree": (428, 428), "pidfd_getfd": (438, 438), "process_vm_writev": (311, 271),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "swapon": (167, 224), "setrlimit": (160, 164),
    "ioctl": (16, 29), "socket": (41, 198),
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
    # Those of all programs have small numbers.
    libc.shmat.restype = ctypes.c_void_p
    if all(libc.shmat(number, None, 0o10000) == ctypes.c_void_p(-1).value for number in range(64)):
        raise OSError(ctypes.get_errno(), "shmat")


def leaves(function, *arguments):
    # What it makes stays when the server has ended, for all to see; where it has its own, with its namespace.
    def attack():
        plain(function, 0, *arguments)
        if os.getppid() == 1:
            raise OSError(errno.EPERM, "its own")

    return attack


def letter(kind, connects=False, passes=False):
    # Either of a pair can send to a socket that is a file.
    def attack():
        with socket.socketpair(socket.AF_UNIX, kind)[0] as s:
            if connects:
                s.connect(door + ".letters")
                s.send(b"x")
            elif passes:
                handles = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))]
                s.sendmsg([b"x"], handles, 0, door + ".letters")
            else:
                s.sendto(b"x", door + ".letters")

    return attack


def reconnected():
    one, other = socket.socketpair(socket.AF_UNIX, STREAM)
    other.close()
    one.connect(door)


def watched(path):
    plain("inotify_add_watch", libc.inotify_init(), os.fsencode(path), 0xFFF)


def with_rights_of_its_owner(make):
    def attack():
        name = f"lent-{os.urandom(4).hex()}"
        make(name)
        if not os.stat(name).st_mode & 0o6000:
            raise OSError(errno.EPERM, "not lent")

    return attack


def opened_by_a_newer_call(name):
    how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)
    call("openat2", -100, ctypes.c_char_p(name.encode()), ctypes.c_char_p(how), len(how))


def moded_by_a_newer_call(name):
    open(name, "w").close()
    call("fchmodat2", -100, ctypes.c_char_p(name.encode()), 0o4755, 0)


def moded(mode):
    def make(name):
        open(name, "w").close()
        os.chmod(name, mode)

    return make


def unnamed(name):
    made = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)
    os.link(f"/proc/self/fd/{made}", name, follow_symlinks=True)


def told_by_the_kernel():
    # A signal for what can be read goes to whom its owner names.
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, victim)
    raise OSError(errno.EPERM, "the kernel asks again when it sends it")


def signalled(name, *process):
    about = ctypes.create_string_buffer(struct.pack("iii", signal.SIGURG, 0, -1), 128)
    call(name, *process, signal.SIGURG, about)


def mark(number):
    limits = ctypes.create_string_buffer(struct.pack("QQ", 1, 1))
    call("setrlimit", number, ctypes.c_void_p(ctypes.addressof(limits)))


def connect_mapped():
    with socket.socket(socket.AF_INET6, STREAM) as s:
        s.settimeout(2)
        s.connect(("::ffff:127.0.0.1", port))


def connect_later():
    # The first data connect.
    with socket.socket(socket.AF_INET, STREAM) as s:
        s.settimeout(2)
        s.setsockopt(socket.IPPROTO_TCP, 30, 1)
        s.connect(("127.0.0.1", port))
        s.send(b"x")


def binds_any():
    with socket.socket(socket.AF_INET, STREAM) as s:
        if libc.bind(s.fileno(), struct.pack("HH12x", 0, socket.htons(own_port)), 16) < 0:
            raise OSError(ctypes.get_errno(), "bind")


def through_a_link():
    os.symlink(file, "link")
    open("link", "rb").read(1)


def by_a_handle():
    handle = os.open(file, os.O_PATH)
    open(f"/proc/self/fd/{handle}", "rb").read(1)


def up_by_handles():
    handle = os.open(".", os.O_PATH)
    for _ in range(20):
        handle = os.open("..", os.O_PATH, dir_fd=handle)
    os.close(os.open(file.lstrip("/"), os.O_RDONLY, dir_fd=handle))


def ambient():
    plain("prctl", 47, 2, 21, 0, 0)


def other_files():
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}"):
            return
    raise OSError(errno.EBADF, "none")


def in_a_group(attack):
    # A filter sees no difference between its own group and the parent's, which it can enter where there are no namespaces. Root
    # is refused at the parent's by the kernel, for its capabilities, so the group here is its own.
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            attack()
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise OSError(status, "the child")


def queue_that_is_a_name():
    try:
        call("mq_open", ctypes.c_char_p(b"toolrack-attack-%d" % os.getpid()), os.O_CREAT | os.O_RDWR, 0o600, 0)
    except OSError as error:
        # Landlock answers so, and the queue is there.
        if error.errno != errno.EACCES:
            raise
    if os.getppid() == 1:
        raise OSError(errno.EPERM, "its own")


parent = os.getppid()
DGRAM, RAW, STREAM = socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM
attacks = {
    "files of the host": other_files,
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
    "queue of messages": leaves("msgget", 0o600),
    "semaphores": leaves("semget", 1, 0o600),
    "shared segment": leaves("shmget", 4096, 0o600),
    "queue of another program": lambda: call("mq_unlink", ctypes.c_char_p(b"toolrack-attack")),
    "queue that is a name": queue_that_is_a_name,
    "letter": letter(DGRAM),
    "letter by a connection": letter(DGRAM, connects=True),
    "letter by a raw pair": letter(RAW),
    "letter with a handle": letter(DGRAM, passes=True),
    "pair that connects again": reconnected,
    "watch a file": lambda: watched(file),
    "watch a folder": lambda: watched(os.path.dirname(file)),
    "mode with rights of the owner": with_rights_of_its_owner(moded(0o4755)),
    "mode with rights of the group": with_rights_of_its_owner(moded(0o2755)),
    "made with rights of the owner": with_rights_of_its_owner(lambda name: os.open(name, os.O_CREAT | os.O_WRONLY, 0o4755)),
    "node with rights of the owner": with_rights_of_its_owner(lambda name: os.mknod(name, 0o104755)),
    "unnamed file with rights of the owner": with_rights_of_its_owner(unnamed),
    "newer open": with_rights_of_its_owner(opened_by_a_newer_call),
    "newer mode": with_rights_of_its_owner(moded_by_a_newer_call),
    "signal by the kernel": told_by_the_kernel,
    "queued signal": lambda: signalled("rt_sigqueueinfo", victim),
    "queued signal to a thread": lambda: signalled("rt_tgsigqueueinfo", victim, victim),
    "signal to the group of the parent": lambda: os.killpg(os.getpgid(parent), 0),
    "group of the host": lambda: os.setpgid(victim, 0),
    "priority of the group of the host": lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(victim), 19),
    "disk priority of the group of the host": lambda: call("ioprio_set", 2, os.getpgid(victim), 0),
    "priority of the group that it is in": lambda: in_a_group(lambda: os.setpriority(os.PRIO_PGRP, 0, 19)),
    "disk priority of the group that it is in": lambda: in_a_group(lambda: call("ioprio_set", 2, 0, 3 << 13 | 7)),
    "descriptor of the host": lambda: call("pidfd_getfd", 0, 0, 0),
    "memory of the host changed": lambda: call("process_vm_writev", victim, 0, 0, 0, 0, 0),
    "mark": lambda: mark(15),
    "mark by a longer number": lambda: mark(15 | 1 << 40),
    "type by a longer number": lambda: call("ioctl", 0, 0x5412 | 1 << 32, ctypes.c_char_p(b"x")),
    "namespace by a longer number": lambda: call("clone", 1 << 40 | 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) or os._exit(0),
    "datagrams by a longer number": lambda: call("socket", 1 << 40 | 2, 2, 0),
    "times of its own": lambda: plain("unshare", 0x80),
    "copy of a mount": lambda: call("open_tree", -100, ctypes.c_char_p(b"/"), 1),
    "moved mount": lambda: call("move_mount", -1, ctypes.c_char_p(b""), -100, ctypes.c_char_p(b"/"), 4),
    "quotas": lambda: call("quotactl", 0, 0, 0, 0),
    "swap": lambda: call("swapon", ctypes.c_char_p(b"/dev/vda"), 0),
    "messages of the kernel": lambda: call("syslog", 2, ctypes.create_string_buffer(100), 100),
    "name of the machine": lambda: plain("sethostname", b"x", 1),
    "ambient capability": ambient,
    "connect by a mapped address": connect_mapped,
    "connect by the first data": connect_later,
    "bind without a family": binds_any,
    "bind by IPv6": lambda: socket.socket(socket.AF_INET6, STREAM).bind(("::", own_port)),
    "TCP that is repaired": lambda: socket.socket().setsockopt(socket.IPPROTO_TCP, 19, 1),
    "keys of IPsec": opens(15, RAW, 2),
    "XDP": opens(44, RAW),
    "TIPC": opens(30, DGRAM),
    "bus of vehicles": opens(29, RAW, 1),
    "read through a link": through_a_link,
    "read by a handle": by_a_handle,
    "up by handles": up_by_handles,
    "file without a name": lambda: os.open(os.path.dirname(file), os.O_TMPFILE | os.O_RDWR, 0o600),
    "move a file": lambda: os.rename(file, "moved"),
    "empty a file": lambda: os.truncate(file, 0),
    "disk": lambda: os.mknod("disk", 0o060600, os.makedev(254, 0)),
    "memory of the machine": reads("/dev/mem"),
    "kernel's own log": reads("/dev/kmsg"),
    "terminal": reads("/dev/tty"),
    "new terminal": reads("/dev/ptmx"),
    "FUSE": reads("/dev/fuse"),
    "program of the parent": writes(f"/proc/{parent}/exe"),
    "who is killed first": writes(f"/proc/{victim}/oom_score_adj"),
    "root of a thread": reads(f"/proc/thread-self/root{file}"),
    "environment of a thread of the host": reads(f"/proc/{victim}/task/{victim}/environ"),
    "time of a file": lambda: os.utime(file, (1, 1)),
    "mode of a file": lambda: os.chmod(file, 0o777),
    "attribute of a file": lambda: os.setxattr(file, "user.attack", b"x"),
    "size of a file": lambda: os.stat(file),
    "owner of a file": lambda: os.chown(file, os.getuid(), os.getgid()),
    "room on the disk of a file": lambda: os.statvfs(os.path.dirname(file)),
}
for name, attack in attacks.items():
    try:
        attack()
        print(f"{name}: ok")
    except OSError as error:
        print(f"{name}: {errno.errorcode.get(error.errno, error)}")
