//! Runs the filters on calls, as the kernel would, without restricting this process.

use libc::{
    AF_ALG, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK, CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET,
    CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_RAW,
    SOCK_SEQPACKET, SOCK_STREAM,
};

use super::*;

/// The number of the architecture in `seccomp_data`.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
const ARCH: u32 = 0xc000_00f3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Allowed,
    Refused(Errno),
    Killed,
}

/// A call as the kernel shows it to a filter (`struct seccomp_data`).
struct FilteredCall {
    call: u32,
    arch: u32,
    arguments: [u64; 6],
}

impl FilteredCall {
    /// The four bytes at `offset`.
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.call,
            4 => self.arch,
            8 | 12 => 0,
            _ => {
                let argument = self.arguments[(offset as usize - 16) / 8].to_ne_bytes();
                let half = (offset as usize - 16) % 8;
                u32::from_ne_bytes(argument[half..half + 4].try_into().unwrap())
            }
        }
    }
}

/// Runs one filter: the few instructions of the kernel's machine that filters consist of.
fn run(program: &[sock_filter], call_data: &FilteredCall) -> u32 {
    let (mut value, mut at) = (0_u32, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let mut jump = |is_true: bool| at += usize::from(if is_true { jt } else { jf });
        match u32::from(code) {
            code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => value = call_data.word(k),
            code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => value &= k,
            code if code == libc::BPF_JMP | libc::BPF_JA => at += k as usize,
            code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => jump(value == k),
            code if code == libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K => jump(value > k),
            code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => jump(value >= k),
            code if code == libc::BPF_RET | libc::BPF_K => return k,
            code => panic!("no filter of ours has the instruction {code:#x}"),
        }
    }
}

/// The answer of all filters. The kernel takes the strictest answer, and among equally strict ones that of the filter
/// that was installed last.
fn answer(calls: AllowedCalls, call_data: &FilteredCall) -> Answer {
    let filters = filters(calls).unwrap();
    let answers = filters.iter().rev().map(|program| run(program, call_data));
    // The kernel compares the actions as signed numbers.
    let strictest = answers.min_by_key(|answer| (answer & libc::SECCOMP_RET_ACTION_FULL).cast_signed()).unwrap();
    match strictest & libc::SECCOMP_RET_ACTION_FULL {
        libc::SECCOMP_RET_ALLOW => Answer::Allowed,
        libc::SECCOMP_RET_ERRNO => {
            Answer::Refused(Errno::from_raw(i32::try_from(strictest & libc::SECCOMP_RET_DATA).unwrap()))
        }
        _ => Answer::Killed,
    }
}

fn ask(calls: AllowedCalls, call: c_long, arguments: &[i64]) -> Answer {
    let mut all = [0; 6];
    for (slot, argument) in all.iter_mut().zip(arguments) {
        *slot = argument.cast_unsigned();
    }
    answer(calls, &FilteredCall { call: u32::try_from(call).unwrap(), arch: ARCH, arguments: all })
}

/// Every set of permissions.
fn every_permission_set() -> impl Iterator<Item = AllowedCalls> {
    let is = |bits: u8, bit: u8| bits & bit != 0;
    (0..16).map(move |bits| AllowedCalls {
        allows_udp: is(bits, 1),
        allows_listening: is(bits, 2),
        allows_unix_sockets: is(bits, 4),
        has_own_processes: is(bits, 8),
    })
}

const ALL: AllowedCalls =
    AllowedCalls { allows_udp: true, allows_listening: true, allows_unix_sockets: true, has_own_processes: true };

const EPERM: Answer = Answer::Refused(Errno::EPERM);
const EACCES: Answer = Answer::Refused(Errno::EACCES);
const ENOSYS: Answer = Answer::Refused(Errno::ENOSYS);
const NO_PROTOCOL: Answer = Answer::Refused(Errno::EPROTONOSUPPORT);

#[test]
fn a_server_with_every_permission_cannot_change_the_system_or_inspect_processes() {
    for calls in every_permission_set() {
        for call in [
            libc::SYS_add_key,
            libc::SYS_bpf,
            libc::SYS_chroot,
            libc::SYS_clock_settime,
            libc::SYS_delete_module,
            libc::SYS_finit_module,
            libc::SYS_fsopen,
            libc::SYS_init_module,
            libc::SYS_io_uring_setup,
            libc::SYS_kcmp,
            libc::SYS_kexec_load,
            libc::SYS_keyctl,
            libc::SYS_memfd_secret,
            libc::SYS_mount,
            libc::SYS_move_mount,
            libc::SYS_mq_open,
            libc::SYS_open_by_handle_at,
            libc::SYS_open_tree,
            libc::SYS_perf_event_open,
            libc::SYS_pidfd_getfd,
            libc::SYS_pivot_root,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_ptrace,
            libc::SYS_reboot,
            libc::SYS_setns,
            libc::SYS_sethostname,
            libc::SYS_swapon,
            libc::SYS_syslog,
            libc::SYS_umount2,
            libc::SYS_unshare,
            libc::SYS_userfaultfd,
        ] {
            assert_eq!(ask(calls, call, &[]), EPERM, "{call} with {calls:?}");
            assert_eq!(ask(calls, call, &[-1, -1, -1, -1, -1, -1]), EPERM, "{call} with {calls:?}");
        }
    }
}

#[test]
fn calls_that_every_program_needs_are_allowed() {
    for calls in every_permission_set() {
        for (call, arguments) in [
            (libc::SYS_read, &[0, 1, 1][..]),
            (libc::SYS_write, &[1, 1, 1]),
            (libc::SYS_execve, &[]),
            (libc::SYS_mmap, &[0, 4096, 7, 0x22, -1, 0]),
            (libc::SYS_exit_group, &[1]),
            (libc::SYS_futex, &[]),
            (libc::SYS_getpid, &[]),
            (libc::SYS_kill, &[0, 15]),
            (libc::SYS_wait4, &[-1]),
            (libc::SYS_connect, &[3, 1, 16]),
            (libc::SYS_bind, &[3, 1, 16]),
            (libc::SYS_pipe2, &[1, 0]),
            (libc::SYS_epoll_create1, &[0]),
            (libc::SYS_prctl, &[15]),
            (libc::SYS_seccomp, &[1]),
            (libc::SYS_getrandom, &[1, 16]),
            (libc::SYS_statx, &[]),
            (libc::SYS_rseq, &[]),
            (libc::SYS_prlimit64, &[0, i64::from(libc::RLIMIT_NOFILE), 1, 0]),
            (libc::SYS_setpriority, &[0, 0, 5]),
            (libc::SYS_ioprio_set, &[1, 0, 3]),
            (libc::SYS_sched_setaffinity, &[0, 8, 1]),
            (libc::SYS_socketpair, &[i64::from(AF_UNIX), i64::from(SOCK_STREAM | SOCK_CLOEXEC)]),
            (libc::SYS_ioctl, &[0, 0x5401]),
        ] {
            assert_eq!(ask(calls, call, arguments), Answer::Allowed, "{call} with {calls:?}");
        }
    }
}

#[test]
fn calls_of_another_architecture_end_the_program() {
    for arch in [0x4000_0003, 0x4000_0028, 0, u32::MAX] {
        for call in [libc::SYS_read, libc::SYS_ptrace] {
            let call_data = FilteredCall { call: u32::try_from(call).unwrap(), arch, arguments: [0; 6] };
            assert_eq!(answer(ALL, &call_data), Answer::Killed, "{arch:#x}");
        }
    }
}

#[test]
fn unreviewed_calls_and_calls_with_hidden_arguments_are_refused() {
    for calls in every_permission_set() {
        for call in [libc::SYS_clone3, libc::SYS_openat2, c_long::from(NEWEST_REVIEWED) + 1, 500, 0x3fff_ffff] {
            assert_eq!(ask(calls, call, &[]), ENOSYS, "{call}");
        }
        // x86-64 has second numbers for the same calls (x32), which filters for the first ones do not match.
        for call in [libc::SYS_read, libc::SYS_ptrace, libc::SYS_mount] {
            assert_eq!(ask(calls, call | 0x4000_0000, &[]), ENOSYS, "{call}");
        }
        assert_eq!(ask(calls, c_long::from(NEWEST_REVIEWED), &[]), Answer::Allowed);
    }
}

#[test]
fn a_server_makes_threads_and_processes_and_never_namespaces() {
    let thread = i64::from(
        libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SETTLS,
    );
    for calls in every_permission_set() {
        for flags in [i64::from(libc::SIGCHLD), thread, i64::from(libc::CLONE_VFORK | libc::CLONE_VM | libc::SIGCHLD)] {
            assert_eq!(ask(calls, libc::SYS_clone, &[flags]), Answer::Allowed, "{flags:#x}");
        }
        for flag in
            [CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET]
        {
            // The kernel looks at the low half only, and so must the filter.
            for other in [0, thread, i64::from(libc::SIGCHLD), 1 << 40] {
                assert_eq!(ask(calls, libc::SYS_clone, &[i64::from(flag) | other]), EPERM, "{flag:#x} {other:#x}");
            }
        }
    }
}

#[test]
fn a_server_lowers_its_own_limits_but_not_the_mark_of_its_supervisor() {
    let mark = i64::from(libc::RLIMIT_RTTIME);
    for calls in every_permission_set() {
        // `confine` sets some of these once the filters are installed.
        for limit in [
            libc::RLIMIT_NOFILE,
            libc::RLIMIT_CORE,
            libc::RLIMIT_STACK,
            libc::RLIMIT_CPU,
            libc::RLIMIT_DATA,
            libc::RLIMIT_NPROC,
        ]
        .map(i64::from)
        {
            assert_eq!(ask(calls, libc::SYS_prlimit64, &[0, limit, 0x7fff_0000_0000, 0]), Answer::Allowed);
            assert_eq!(ask(calls, libc::SYS_setrlimit, &[limit, 1]), Answer::Allowed);
            assert_eq!(ask(calls, libc::SYS_prlimit64, &[77, limit, 0, 1]), EPERM, "the limit of another process");
        }
        assert_eq!(ask(calls, libc::SYS_setrlimit, &[mark, 1]), EPERM);
        assert_eq!(ask(calls, libc::SYS_setrlimit, &[mark | 1 << 32, 1]), EPERM, "a longer number");
        // Reading the limit is harmless. A new value is a pointer, of which either half may be 0.
        assert_eq!(ask(calls, libc::SYS_prlimit64, &[0, mark, 0, 1]), Answer::Allowed);
        for pointer in [1, 0x7fff_0000_0000, 1 << 32, -1] {
            assert_eq!(ask(calls, libc::SYS_prlimit64, &[0, mark, pointer, 0]), EPERM, "{pointer:#x}");
        }
    }
}

#[test]
fn without_namespaces_a_server_may_not_address_other_processes() {
    let apart = AllowedCalls { has_own_processes: false, ..ALL };
    for call in [
        libc::SYS_get_robust_list,
        libc::SYS_pidfd_open,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ] {
        assert_eq!(ask(apart, call, &[77]), EPERM, "{call}");
        assert_eq!(ask(apart, call, &[0]), Answer::Allowed, "{call}: itself");
        assert_eq!(ask(ALL, call, &[77]), Answer::Allowed, "{call}: there is no other");
    }
    assert_eq!(ask(apart, libc::SYS_pidfd_send_signal, &[0]), EPERM, "its argument is a descriptor");
    assert_eq!(ask(ALL, libc::SYS_pidfd_send_signal, &[3]), Answer::Allowed);
    // The first argument is the kind of target, and the second one its id. The number for a process is 0 in one call
    // and 1 in the other.
    for (call, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        assert_eq!(ask(apart, call, &[process, 77]), EPERM);
        assert_eq!(ask(ALL, call, &[process, 77]), Answer::Allowed);
        for calls in [apart, ALL] {
            assert_eq!(ask(calls, call, &[process + 1, 0]), EPERM, "its group");
            assert_eq!(ask(calls, call, &[process + 2, 0]), EPERM, "all of the user's");
        }
    }
}

#[test]
fn a_server_uses_shared_ipc_only_in_a_namespace_of_its_own() {
    for call in [
        libc::SYS_inotify_add_watch,
        libc::SYS_msgget,
        libc::SYS_msgrcv,
        libc::SYS_msgsnd,
        libc::SYS_semget,
        libc::SYS_semop,
        libc::SYS_shmat,
        libc::SYS_shmctl,
        libc::SYS_shmget,
    ] {
        for calls in every_permission_set() {
            let expected = if calls.has_own_processes { Answer::Allowed } else { EPERM };
            assert_eq!(ask(calls, call, &[1, 1, 1]), expected, "{call} with {calls:?}");
        }
    }
}

#[test]
fn a_server_cannot_set_the_setuid_or_setgid_bit() {
    const CREATES: i64 = libc::O_CREAT as i64;
    const UNNAMED: i64 = (libc::O_TMPFILE | libc::O_WRONLY) as i64;
    for bit in [0o4000, 0o2000, 0o6000] {
        // Each call, with the arguments before the mode.
        for (call, before) in [
            (libc::SYS_fchmod, &[3][..]),
            (libc::SYS_fchmodat, &[-100, 1]),
            (FCHMODAT2, &[-100, 1]),
            (libc::SYS_mknodat, &[-100, 1]),
            (libc::SYS_openat, &[-100, 1, CREATES]),
            (libc::SYS_openat, &[-100, 1, UNNAMED]),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_chmod, &[1]),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_creat, &[1]),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_open, &[1, CREATES]),
        ] {
            let with = |mode: i64| [before, &[mode]].concat();
            for calls in every_permission_set() {
                assert_eq!(ask(calls, call, &with(bit | 0o755)), EPERM, "{call} {bit:o}");
                assert_eq!(ask(calls, call, &with(0o1777)), Answer::Allowed, "{call}");
            }
        }
    }
    // Without a new file, the mode is an unused register with any value.
    let folder = i64::from(libc::O_DIRECTORY | libc::O_RDONLY);
    for flags in [0, folder, i64::from(libc::O_RDWR | libc::O_TRUNC)] {
        assert_eq!(ask(ALL, libc::SYS_openat, &[-100, 1, flags, -1]), Answer::Allowed, "{flags:#o}");
    }
}

#[test]
fn a_server_cannot_type_into_a_terminal() {
    for calls in every_permission_set() {
        for request in [0x5412, 0x541c, 0x5412 | 1 << 32] {
            assert_eq!(ask(calls, libc::SYS_ioctl, &[0, request]), EPERM, "{request:#x}");
        }
        for request in [0x5401, 0x5413, 0x541b] {
            assert_eq!(ask(calls, libc::SYS_ioctl, &[0, request]), Answer::Allowed, "{request:#x}");
        }
    }
}

fn socket(calls: AllowedCalls, family: i32, kind: i32, protocol: i32) -> Answer {
    ask(calls, libc::SYS_socket, &[family, kind, protocol].map(i64::from))
}

#[test]
fn a_server_has_tcp_and_datagrams_only_where_it_may_send_them() {
    let (tcp, udp) = (libc::IPPROTO_TCP, libc::IPPROTO_UDP);
    for calls in every_permission_set() {
        let datagrams = if calls.allows_udp { Answer::Allowed } else { EACCES };
        for family in [AF_INET, AF_INET6] {
            for (kind, protocol, expected) in [
                (SOCK_STREAM, 0, Answer::Allowed),
                (SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, tcp, Answer::Allowed),
                (SOCK_STREAM, libc::IPPROTO_SCTP, NO_PROTOCOL),
                (SOCK_STREAM, libc::IPPROTO_MPTCP, NO_PROTOCOL),
                (SOCK_STREAM | SOCK_NONBLOCK, 256, NO_PROTOCOL),
                (SOCK_DGRAM, 0, datagrams),
                (SOCK_DGRAM | SOCK_CLOEXEC, udp, datagrams),
                (SOCK_RAW, libc::IPPROTO_ICMP, EACCES),
                (SOCK_SEQPACKET, libc::IPPROTO_SCTP, EACCES),
                (6, 33, EACCES),
                (15, 0, EACCES),
            ] {
                assert_eq!(socket(calls, family, kind, protocol), expected, "{family} {kind:#x} {protocol} {calls:?}");
            }
            // Pings are datagrams of another protocol than UDP.
            assert_ne!(socket(calls, family, SOCK_DGRAM, libc::IPPROTO_ICMP), Answer::Allowed, "{calls:?}");
        }
        for family in [AF_PACKET, AF_VSOCK, AF_ALG, 15, 29, 30, 43, 44, -1] {
            for kind in [SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET] {
                assert_eq!(socket(calls, family, kind, 0), EACCES, "{family} {kind} {calls:?}");
            }
        }
    }
}

#[test]
fn a_server_reads_network_interfaces_only_with_udp_and_nothing_else_of_netlink() {
    for calls in every_permission_set() {
        let expected = if calls.allows_udp { Answer::Allowed } else { EACCES };
        assert_eq!(socket(calls, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0), expected, "{calls:?}");
        for protocol in [4, 9, 12, 15, 16] {
            assert_eq!(socket(calls, AF_NETLINK, SOCK_RAW, protocol), EACCES, "{protocol} {calls:?}");
        }
    }
}

#[test]
fn a_server_uses_unix_sockets_only_in_namespaces_of_its_own() {
    for calls in every_permission_set() {
        let expected = if calls.allows_unix_sockets { Answer::Allowed } else { EACCES };
        for kind in [SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET] {
            assert_eq!(socket(calls, AF_UNIX, kind, 0), expected, "{kind} {calls:?}");
        }
        let pair = |family: i32, kind: i32| ask(calls, libc::SYS_socketpair, &[i64::from(family), i64::from(kind)]);
        // A datagram socket of a pair can also send to any Unix socket in the file system, and so can a raw one.
        for kind in [SOCK_DGRAM, SOCK_RAW, SOCK_DGRAM | SOCK_CLOEXEC] {
            assert_eq!(pair(AF_UNIX, kind), expected, "{kind:#x} {calls:?}");
        }
        assert_eq!(pair(AF_UNIX, SOCK_SEQPACKET), Answer::Allowed);
        for family in [AF_INET, AF_INET6, 30] {
            assert_eq!(pair(family, SOCK_STREAM), EACCES, "{family}");
        }
    }
}

#[test]
fn a_server_that_may_bind_no_port_does_not_listen() {
    for calls in every_permission_set() {
        let expected = if calls.allows_listening { Answer::Allowed } else { EACCES };
        assert_eq!(ask(calls, libc::SYS_listen, &[3, 16]), expected, "{calls:?}");
    }
}

#[test]
fn a_server_cannot_connect_past_landlock() {
    let fast = i64::from(libc::MSG_FASTOPEN);
    for calls in every_permission_set() {
        for (call, before) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            let with = |flags: i64| ask(calls, call, &[vec![3; before], vec![flags]].concat());
            for flags in [fast, fast | i64::from(libc::MSG_NOSIGNAL)] {
                assert_eq!(with(flags), EACCES, "{call}");
            }
            assert_eq!(with(i64::from(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)), Answer::Allowed, "{call}");
        }
        let option = |level: i32, name: i64| ask(calls, libc::SYS_setsockopt, &[3, i64::from(level), name]);
        assert_eq!(option(libc::IPPROTO_TCP, 31), EACCES, "another protocol on a socket of TCP");
        assert_eq!(option(libc::IPPROTO_TCP, i64::from(libc::TCP_NODELAY)), Answer::Allowed);
        assert_eq!(option(libc::SOL_SOCKET, 31), Answer::Allowed, "the same number elsewhere");
    }
}
