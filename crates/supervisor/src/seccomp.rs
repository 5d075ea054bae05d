//! The system calls that no confined server may make, with seccomp: Landlock judges files and ports, and says nothing of these.
//!
//! Three filters, because each has one answer; the kernel asks all of them and takes the strictest. A call of another
//! architecture (32-bit calls of a 64-bit program) ends the program.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use nix::errno::Errno;
use seccompiler::{
    BpfProgram, SeccompAction,
    SeccompCmpArgLen::{Dword, Qword},
    SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

/// The permissions that the filters depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    /// It may send datagrams of the internet families, and read the system's list of network interfaces.
    pub(crate) udp: bool,
    /// It may wait for connections.
    pub(crate) listen: bool,
    /// It may use sockets that are files.
    pub(crate) local: bool,
    /// The server sees no process but its own: then it may name them in calls about other processes.
    pub(crate) alone: bool,
}

/// The newest call that was reviewed (`removexattrat`). Newer ones "do not exist", so that programs do without them.
const NEWEST: u32 = 466;

const SOCKET_KIND: u64 = 0xf;
const KINDS: u64 = 16;
const STREAM: u64 = libc::SOCK_STREAM as u64;
const DATAGRAM: u64 = libc::SOCK_DGRAM as u64;
const RAW: u64 = libc::SOCK_RAW as u64;

/// Options of TCP that make something else of a socket (`TCP_ULP`: another protocol, which Landlock does not see as TCP).
const TCP_ULP: u64 = 31;

/// Calls that change the system, look into other processes, or open the parts of a kernel in which holes are found.
const NEVER: &[c_long] = &[
    // Queues of POSIX count against the limit of the user, and one is made before Landlock says no.
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

/// Calls whose first argument names a process, which must be 0: the one that calls.
const ABOUT_PROCESSES: &[c_long] = &[
    libc::SYS_get_robust_list,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Calls that reach what all programs have in common, where they do: memory, queues and semaphores that are no files, and the names of
/// files in folders that cannot be read.
const IN_COMMON: &[c_long] = &[
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

/// Calls that give a file its mode, and which argument that is.
const MODES: &[(c_long, u8)] = &[
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

/// The same where they make a file: the argument of the flags, which is before that of the mode.
const OPENS: &[(c_long, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// `fchmodat2`, which has this number everywhere.
const FCHMODAT2: c_long = 452;

/// What a process may not be part of on its own account: `clone` with one of these makes namespaces.
const NAMESPACES: &[c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Puts the filters on this process, for good, and on all that it becomes and starts.
///
/// # Errors
/// When the system, or this architecture, cannot.
pub(crate) fn shut(calls: Calls) -> Result<(), String> {
    for program in programs(calls)? {
        apply_filter(&program).map_err(|error| format!("this system cannot shut system calls (seccomp): {error}"))?;
    }
    Ok(())
}

/// Whether this system has seccomp for this architecture.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the system says in a folder what it has")]
pub fn support() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok() && std::path::Path::new("/proc/sys/kernel/seccomp").exists()
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn programs(calls: Calls) -> Result<[BpfProgram; 4], String> {
    Ok([
        compile(refused(calls), Errno::EPERM)?,
        compile(sockets(calls), Errno::EACCES)?,
        compile(protocols(), Errno::EPROTONOSUPPORT)?,
        unknown(),
    ])
}

fn compile(rules: Result<Rules, seccompiler::BackendError>, answer: Errno) -> Result<BpfProgram, String> {
    let no = |error: &dyn std::fmt::Display| format!("system calls cannot be shut here (seccomp): {error}");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| no(&error))?;
    let refuse = SeccompAction::Errno(answer as u32);
    let filter = SeccompFilter::new(rules.map_err(|error| no(&error))?, SeccompAction::Allow, refuse, arch);
    filter.and_then(BpfProgram::try_from).map_err(|error| no(&error))
}

fn when(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions.iter().map(|(at, is, value)| SeccompCondition::new(*at, Dword, is.clone(), *value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn refused(calls: Calls) -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules: Rules = NEVER.iter().map(|call| (*call, Vec::new())).collect();
    // Its own limits it may lower, but for the one that is its supervisor's mark.
    let mark = u64::from(libc::RLIMIT_RTTIME);
    rules.insert(libc::SYS_prlimit64, vec![when(&[(0, Ne, 0)])?, changes_limit(mark)?]);
    rules.insert(libc::SYS_setrlimit, vec![when(&[(0, Eq, mark)])?]);
    // The kinds behind a process (0, and 1 for `ioprio_set`) mean a group and all processes of the user. Also the group of
    // the one that calls: it can enter another one first, such as its supervisor's.
    let mut priority = vec![when(&[(0, Ne, 0)])?];
    let mut io_priority = vec![when(&[(0, Ne, 1)])?];
    if !calls.alone {
        priority.push(when(&[(1, Ne, 0)])?);
        io_priority.push(when(&[(1, Ne, 0)])?);
        for call in ABOUT_PROCESSES {
            rules.insert(*call, vec![when(&[(0, Ne, 0)])?]);
        }
        // Its argument is a descriptor: there is no number for the process itself.
        rules.insert(libc::SYS_pidfd_send_signal, Vec::new());
    }
    rules.insert(libc::SYS_setpriority, priority);
    rules.insert(libc::SYS_ioprio_set, io_priority);
    let mut clone = Vec::new();
    for flag in NAMESPACES {
        let flag = u64::from(flag.unsigned_abs());
        clone.push(when(&[(0, MaskedEq(flag), flag)])?);
    }
    rules.insert(libc::SYS_clone, clone);
    if !calls.alone {
        rules.extend(IN_COMMON.iter().map(|call| (*call, Vec::new())));
    }
    lend_no_rights(&mut rules)?;
    // To type into a terminal, and to paste into the console.
    rules.insert(libc::SYS_ioctl, vec![when(&[(1, Eq, u64::from(TIOCSTI))])?, when(&[(1, Eq, u64::from(TIOCLINUX))])?]);
    Ok(rules)
}

/// Forbids files that run with the rights of their owner or group: another user of the machine could start them,
/// outside of the sandbox.
fn lend_no_rights(rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
    use SeccompCmpOp::MaskedEq;
    let bits = [libc::S_ISUID, libc::S_ISGID].map(u64::from);
    // `O_TMPFILE` is this and `O_DIRECTORY`.
    let makes = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(|flag| u64::from(flag.unsigned_abs()));
    for (call, mode) in MODES {
        let with = bits.map(|bit| when(&[(*mode, MaskedEq(bit), bit)]));
        rules.insert(*call, with.into_iter().collect::<Result<_, _>>()?);
    }
    for (call, flags) in OPENS {
        let with = bits.into_iter().flat_map(|bit| makes.map(|make| (bit, make)));
        let with = with.map(|(bit, make)| when(&[(*flags, MaskedEq(make), make), (*flags + 1, MaskedEq(bit), bit)]));
        rules.insert(*call, with.collect::<Result<_, _>>()?);
    }
    Ok(())
}

/// `prlimit64` with a new value, which is a pointer and therefore looked at in full.
fn changes_limit(resource: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let resource = SeccompCondition::new(1, Dword, SeccompCmpOp::Eq, resource)?;
    SeccompRule::new(vec![resource, SeccompCondition::new(2, Qword, SeccompCmpOp::Ne, 0)?])
}

const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;

fn sockets(calls: Calls) -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let [unix, inet, inet6, netlink] =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|family| u64::from(family.unsigned_abs()));
    let mut families = vec![(0, Ne, unix), (0, Ne, inet), (0, Ne, inet6)];
    let mut socket = Vec::new();
    if calls.udp {
        families.push((0, Ne, netlink));
        // What is left of netlink is to read interfaces, addresses and routes.
        socket.push(when(&[(0, Eq, netlink), (2, Ne, 0)])?);
    }
    socket.push(when(&families)?);
    for kind in (0..KINDS).filter(|kind| *kind != STREAM && !(calls.udp && *kind == DATAGRAM)) {
        for family in [inet, inet6] {
            socket.push(when(&[(0, Eq, family), (1, MaskedEq(SOCKET_KIND), kind)])?);
        }
    }
    if !calls.local {
        socket.push(when(&[(0, Eq, unix)])?);
    }
    let mut pair = vec![when(&[(0, Ne, unix)])?];
    if !calls.local {
        // Either of a pair for datagrams can send to any socket that is a file.
        for kind in [DATAGRAM, RAW] {
            pair.push(when(&[(1, MaskedEq(SOCKET_KIND), kind)])?);
        }
    }
    let mut rules = Rules::from([
        (libc::SYS_socket, socket),
        (libc::SYS_socketpair, pair),
        (libc::SYS_setsockopt, vec![when(&[(1, Eq, u64::from(libc::IPPROTO_TCP.unsigned_abs())), (2, Eq, TCP_ULP)])?]),
    ]);
    // A first packet with data connects, and Landlock is not asked.
    let fast = u64::from(libc::MSG_FASTOPEN.unsigned_abs());
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        rules.insert(call, vec![when(&[(flags, MaskedEq(fast), fast)])?]);
    }
    if !calls.listen {
        rules.insert(libc::SYS_listen, Vec::new());
    }
    Ok(rules)
}

/// Streams and datagrams of the internet families in other protocols than TCP and UDP: Landlock knows ports of TCP alone.
fn protocols() -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut socket = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6].map(|family| u64::from(family.unsigned_abs())) {
        for (kind, protocol) in [(STREAM, libc::IPPROTO_TCP), (DATAGRAM, libc::IPPROTO_UDP)] {
            let protocol = u64::from(protocol.unsigned_abs());
            socket.push(when(&[(0, Eq, family), (1, MaskedEq(SOCKET_KIND), kind), (2, Ne, 0), (2, Ne, protocol)])?);
        }
    }
    Ok(Rules::from([(libc::SYS_socket, socket)]))
}

/// `clone3` and `openat2`, whose arguments a filter cannot see, calls newer than this program, and the second numbers of all calls are not
/// there.
fn unknown() -> BpfProgram {
    let absent = libc::SECCOMP_RET_ERRNO | Errno::ENOSYS as u32;
    let step =
        |code: u32, jt: u8, jf: u8, k: u32| sock_filter { code: u16::try_from(code).unwrap_or_default(), jt, jf, k };
    let [clone3, openat2] = [libc::SYS_clone3, libc::SYS_openat2].map(|call| u32::try_from(call).unwrap_or_default());
    vec![
        // The number of the call is the first field.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 2, 0, clone3),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, openat2),
        step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, 1, NEWEST),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, absent),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests;
