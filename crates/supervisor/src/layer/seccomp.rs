//! Denies servers in the sandbox dangerous system calls with seccomp, because Landlock restricts only files and ports.
//! The *confinement* (the rights from the server's configuration) says which calls are allowed nevertheless.
//!
//! There are several filters, because a filter can return only one error for the calls that it refuses. The kernel runs
//! all of them and takes the strictest result. A call of another architecture (a 32-bit call of a 64-bit program) kills
//! the program.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use nix::errno::Errno;
use seccompiler::{
    BpfProgram, SeccompAction,
    SeccompCmpArgLen::{Dword, Qword},
    SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::stage::{Command, Isolation};

/// The permissions of the server that the filters depend on.
#[derive(Clone, Copy, Debug)]
struct AllowedCalls {
    /// The server may use UDP, and read the system's list of network interfaces.
    allows_udp: bool,
    /// The server may listen for connections.
    allows_listening: bool,
    /// The server may create Unix sockets.
    allows_unix_sockets: bool,
    /// The server has its own process namespace and sees only its own processes, so it may make calls about other
    /// processes.
    has_own_processes: bool,
}

/// The newest reviewed call (`removexattrat`). Newer calls fail as if the kernel lacked them, so programs fall back to
/// older ones.
const NEWEST_REVIEWED: u32 = 466;

/// The bits of the second argument of `socket` that hold the kind of the socket; the other bits are flags.
const SOCKET_KIND_MASK: u64 = 0xf;
/// How many kinds these bits can hold.
const SOCKET_KINDS: u64 = 16;
const STREAM: u64 = libc::SOCK_STREAM as u64;
const DATAGRAM: u64 = libc::SOCK_DGRAM as u64;
const RAW: u64 = libc::SOCK_RAW as u64;

/// The socket option that puts another protocol on top of TCP, which Landlock does not see as TCP.
const TCP_ULP: u64 = 31;

/// Calls that change the system, look into other processes, or reach parts of the kernel with a history of holes.
const DENIED_CALLS: &[c_long] = &[
    // POSIX queues count against the user's limit, and the kernel creates one before Landlock can deny it.
    libc::SYS_mq_getsetattr,
    libc::SYS_mq_notify,
    libc::SYS_mq_open,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_unlink,
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_memfd_secret,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
];

/// Calls whose first argument is a process id. Without namespaces it must be 0, which means the calling process.
const CALLS_WITH_PROCESS_ID: &[c_long] = &[
    libc::SYS_get_robust_list,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Calls that reach what all programs share outside of namespaces: memory, queues and semaphores of System V. With
/// inotify, a server would also learn the names of files in folders that it cannot read.
const SYSTEM_WIDE_IPC: &[c_long] = &[
    libc::SYS_inotify_add_watch,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];

/// Calls that set the mode of a file, and the position of the argument with the mode.
const CALLS_WITH_MODE: &[(c_long, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Calls that set the mode of a file only if their flags create the file, and the position of the argument with the
/// flags. The mode is the argument after the flags.
const CALLS_WITH_FLAGS: &[(c_long, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// The number of `fchmodat2` on every architecture.
const FCHMODAT2: c_long = 452;

/// The flags with which `clone` makes namespaces.
const NAMESPACE_FLAGS: &[c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Denies this process all system calls that the confinement does not allow.
///
/// # Errors
/// If the system has no seccomp, or this program has no filters for the architecture, and the confinement does not
/// allow to leave out this restriction.
pub(crate) fn apply(command: &Command<'_>, isolation: Option<Isolation>) -> Result<(), String> {
    let confinement = &command.confinement;
    let may_bind_no_port = confinement.bind.as_ref().is_some_and(Vec::is_empty);
    let calls = AllowedCalls {
        allows_udp: confinement.udp,
        allows_listening: !may_bind_no_port || isolation.is_some_and(|isolation| isolation.has_own_network),
        allows_unix_sockets: isolation.is_some(),
        has_own_processes: isolation.is_some(),
    };
    match restrict(calls) {
        Err(why) if !confinement.best_effort => Err(why),
        // With `best_effort`, the server starts even without the filters.
        _ => Ok(()),
    }
}

/// Installs the filters permanently in this process, and so in every program and process that it starts.
fn restrict(calls: AllowedCalls) -> Result<(), String> {
    for program in filters(calls)? {
        apply_filter(&program)
            .map_err(|error| format!("this system cannot restrict system calls (seccomp): {error}"))?;
    }
    Ok(())
}

/// Returns what this system's seccomp restricts.
pub(crate) fn coverage() -> String {
    let text = match has_seccomp() {
        true => "system calls, protocols other than TCP",
        false => "none in this system: an entry with `sandbox` does not start",
    };
    text.to_owned()
}

/// Returns whether this system has seccomp, and this program has filters for its architecture.
#[expect(clippy::disallowed_methods, reason = "the system lists its actions in a folder")]
fn has_seccomp() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok() && std::path::Path::new("/proc/sys/kernel/seccomp").exists()
}

/// The system calls that a filter refuses, by their numbers. A call with rules is refused if it matches one of them. A
/// call with an empty list of rules is always refused.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Returns the filters to install. Each refuses its calls with an error of its own.
fn filters(calls: AllowedCalls) -> Result<[BpfProgram; 4], String> {
    Ok([
        compile(denied_call_rules(calls), Errno::EPERM)?,
        compile(socket_rules(calls), Errno::EACCES)?,
        compile(protocol_rules(), Errno::EPROTONOSUPPORT)?,
        unknown_calls_filter(),
    ])
}

/// Compiles a filter that refuses calls with the error `errno`.
fn compile(rules: Result<Rules, seccompiler::BackendError>, errno: Errno) -> Result<BpfProgram, String> {
    let seccomp_error =
        |error: &dyn std::fmt::Display| format!("system calls cannot be restricted here (seccomp): {error}");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| seccomp_error(&error))?;
    let refuse = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(rules.map_err(|error| seccomp_error(&error))?, SeccompAction::Allow, refuse, arch);
    filter.and_then(BpfProgram::try_from).map_err(|error| seccomp_error(&error))
}

/// Returns the rule for calls that meet all conditions. A condition is the position of an argument, a comparison, and
/// the value to compare the argument with.
fn rule_if(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions
        .iter()
        .map(|(argument, comparison, value)| SeccompCondition::new(*argument, Dword, comparison.clone(), *value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// Denies calls that change the system, reach other processes or undo the confinement.
fn denied_call_rules(calls: AllowedCalls) -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules: Rules = DENIED_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    // The server may lower its own limits, except the one that carries its supervisor's mark.
    let mark_limit = u64::from(libc::RLIMIT_RTTIME);
    rules.insert(libc::SYS_prlimit64, vec![rule_if(&[(0, Ne, 0)])?, rule_for_limit_change(mark_limit)?]);
    rules.insert(libc::SYS_setrlimit, vec![rule_if(&[(0, Eq, mark_limit)])?]);
    // The first argument is the kind of target. Allow only a single process (0, and 1 for `ioprio_set`), but neither
    // all processes of the user nor a process group. Do not even allow the server's own group, because the server could
    // first join that of its supervisor.
    let mut setpriority_rules = vec![rule_if(&[(0, Ne, 0)])?];
    let mut ioprio_set_rules = vec![rule_if(&[(0, Ne, 1)])?];
    if !calls.has_own_processes {
        setpriority_rules.push(rule_if(&[(1, Ne, 0)])?);
        ioprio_set_rules.push(rule_if(&[(1, Ne, 0)])?);
        for call in CALLS_WITH_PROCESS_ID {
            rules.insert(*call, vec![rule_if(&[(0, Ne, 0)])?]);
        }
        // The first argument of this call is a descriptor, so 0 does not mean the calling process.
        rules.insert(libc::SYS_pidfd_send_signal, Vec::new());
    }
    rules.insert(libc::SYS_setpriority, setpriority_rules);
    rules.insert(libc::SYS_ioprio_set, ioprio_set_rules);
    let mut clone_rules = Vec::new();
    for flag in NAMESPACE_FLAGS {
        let flag = u64::from(flag.unsigned_abs());
        clone_rules.push(rule_if(&[(0, MaskedEq(flag), flag)])?);
    }
    rules.insert(libc::SYS_clone, clone_rules);
    if !calls.has_own_processes {
        rules.extend(SYSTEM_WIDE_IPC.iter().map(|call| (*call, Vec::new())));
    }
    deny_setuid_files(&mut rules)?;
    // `TIOCSTI` types into the terminal, `TIOCLINUX` pastes into the console.
    rules.insert(
        libc::SYS_ioctl,
        vec![rule_if(&[(1, Eq, u64::from(TIOCSTI))])?, rule_if(&[(1, Eq, u64::from(TIOCLINUX))])?],
    );
    Ok(rules)
}

/// Denies creating setuid and setgid files, which another user of the machine could run, outside of the sandbox.
fn deny_setuid_files(rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
    use SeccompCmpOp::MaskedEq;
    let setid_bits = [libc::S_ISUID, libc::S_ISGID].map(u64::from);
    // `O_TMPFILE` includes `O_DIRECTORY`, which alone creates no file.
    let creating_flags =
        [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(|flag| u64::from(flag.unsigned_abs()));
    for (call, mode_index) in CALLS_WITH_MODE {
        let call_rules = setid_bits.map(|bit| rule_if(&[(*mode_index, MaskedEq(bit), bit)]));
        rules.insert(*call, call_rules.into_iter().collect::<Result<_, _>>()?);
    }
    for (call, flags_index) in CALLS_WITH_FLAGS {
        let pairs = setid_bits.into_iter().flat_map(|bit| creating_flags.map(|flag| (bit, flag)));
        let call_rules = pairs.map(|(bit, flag)| {
            rule_if(&[(*flags_index, MaskedEq(flag), flag), (*flags_index + 1, MaskedEq(bit), bit)])
        });
        rules.insert(*call, call_rules.collect::<Result<_, _>>()?);
    }
    Ok(())
}

/// Matches a `prlimit64` that sets `resource`: its third argument, a 64-bit pointer to the new value, is not null.
fn rule_for_limit_change(resource: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let resource = SeccompCondition::new(1, Dword, SeccompCmpOp::Eq, resource)?;
    SeccompRule::new(vec![resource, SeccompCondition::new(2, Qword, SeccompCmpOp::Ne, 0)?])
}

/// The `ioctl` that types into a terminal.
const TIOCSTI: u32 = 0x5412;
/// The `ioctl` that, among others, pastes into the console.
const TIOCLINUX: u32 = 0x541c;

/// Denies sockets of other families and kinds than those that the server may use, and calls that evade Landlock's rules
/// for TCP.
fn socket_rules(calls: AllowedCalls) -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let [unix, inet, inet6, netlink] =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|family| u64::from(family.unsigned_abs()));
    let mut other_families = vec![(0, Ne, unix), (0, Ne, inet), (0, Ne, inet6)];
    let mut socket_call_rules = Vec::new();
    if calls.allows_udp {
        other_families.push((0, Ne, netlink));
        // Of the netlink protocols, allow only protocol 0, which lists interfaces, addresses and routes.
        socket_call_rules.push(rule_if(&[(0, Eq, netlink), (2, Ne, 0)])?);
    }
    socket_call_rules.push(rule_if(&other_families)?);
    for kind in (0..SOCKET_KINDS).filter(|kind| *kind != STREAM && !(calls.allows_udp && *kind == DATAGRAM)) {
        for family in [inet, inet6] {
            socket_call_rules.push(rule_if(&[(0, Eq, family), (1, MaskedEq(SOCKET_KIND_MASK), kind)])?);
        }
    }
    if !calls.allows_unix_sockets {
        socket_call_rules.push(rule_if(&[(0, Eq, unix)])?);
    }
    let mut socketpair_rules = vec![rule_if(&[(0, Ne, unix)])?];
    if !calls.allows_unix_sockets {
        // Each socket of a datagram pair can send to any Unix socket with a path.
        for kind in [DATAGRAM, RAW] {
            socketpair_rules.push(rule_if(&[(1, MaskedEq(SOCKET_KIND_MASK), kind)])?);
        }
    }
    let mut rules = Rules::from([
        (libc::SYS_socket, socket_call_rules),
        (libc::SYS_socketpair, socketpair_rules),
        (
            libc::SYS_setsockopt,
            vec![rule_if(&[(1, Eq, u64::from(libc::IPPROTO_TCP.unsigned_abs())), (2, Eq, TCP_ULP)])?],
        ),
    ]);
    // TCP Fast Open connects by sending, which Landlock does not check.
    let fast_open = u64::from(libc::MSG_FASTOPEN.unsigned_abs());
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        rules.insert(call, vec![rule_if(&[(flags, MaskedEq(fast_open), fast_open)])?]);
    }
    if !calls.allows_listening {
        rules.insert(libc::SYS_listen, Vec::new());
    }
    Ok(rules)
}

/// Denies internet sockets of other protocols than TCP and UDP, such as MPTCP: Landlock only restricts TCP.
fn protocol_rules() -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut socket_call_rules = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6].map(|family| u64::from(family.unsigned_abs())) {
        for (kind, protocol) in [(STREAM, libc::IPPROTO_TCP), (DATAGRAM, libc::IPPROTO_UDP)] {
            let protocol = u64::from(protocol.unsigned_abs());
            socket_call_rules.push(rule_if(&[
                (0, Eq, family),
                (1, MaskedEq(SOCKET_KIND_MASK), kind),
                (2, Ne, 0),
                (2, Ne, protocol),
            ])?);
        }
    }
    Ok(Rules::from([(libc::SYS_socket, socket_call_rules)]))
}

/// Makes some calls fail as if the kernel lacked them: `clone3` and `openat2`, because a filter cannot see their
/// arguments, and all calls with a number above [`NEWEST_REVIEWED`]. Those are newer calls, and all calls of the x32
/// ABI.
fn unknown_calls_filter() -> BpfProgram {
    let refusal = libc::SECCOMP_RET_ERRNO | Errno::ENOSYS as u32;
    // All numbers below fit, so no default is ever used.
    let instruction =
        |code: u32, jt: u8, jf: u8, k: u32| sock_filter { code: u16::try_from(code).unwrap_or_default(), jt, jf, k };
    let [clone3, openat2] = [libc::SYS_clone3, libc::SYS_openat2].map(|call| u32::try_from(call).unwrap_or_default());
    vec![
        // Load the number of the call, which is the first field.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        // Jump to the refusal for each refused call. The two numbers say how many instructions to skip: the first if
        // the comparison is true, the second if not.
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 2, 0, clone3),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, openat2),
        instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, 1, NEWEST_REVIEWED),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, refusal),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests;
