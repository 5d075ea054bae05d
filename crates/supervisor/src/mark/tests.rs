use super::*;

#[test]
fn a_mark_is_read_from_the_limit_that_carries_it() {
    let mark = Mark::of_supervisor(std::process::id()).unwrap();
    for level in 0..=LEVEL_MASK {
        assert_eq!(Mark::from_limit(mark.limit(level)), Some(mark));
        assert!(level == 0 || mark.limit(level) > mark.limit(level - 1), "a deeper one is lower");
    }
    for limit in [0, 200_000, u64::MAX, u64::MAX - 1, i64::MAX as u64] {
        assert_eq!(Mark::from_limit(limit), None);
    }
}

#[test]
fn the_system_and_its_table_say_the_same_about_a_process() {
    let own = i32::try_from(std::process::id()).unwrap();
    assert_eq!((hard_limit(own).unwrap(), hard_limit_in_proc(own)), (u64::MAX, None), "unlimited");
    mark_this_process();
    let mark = Mark::of_supervisor(std::process::id()).unwrap();
    assert_eq!(Some(hard_limit(own).unwrap()), hard_limit_in_proc(own));
    assert_eq!(read_mark(own), Some(mark));
    let no_process = i32::MAX;
    assert!(hard_limit(no_process).is_err() && read_mark(no_process).is_none());
}

#[test]
fn found_processes_are_killed_even_if_the_search_ran_out_of_time() {
    let mut left = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let id = table::identity(i32::try_from(left.id()).unwrap()).unwrap();
    assert_eq!(kill_all(|| vec![id], Instant::now()), 1);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&left.wait().unwrap()), Some(Signal::SIGKILL as i32));
}

#[test]
fn a_mark_is_lost_when_its_process_is_gone_or_is_another_one() {
    let mark = Mark::of_supervisor(std::process::id()).unwrap();
    assert!(!mark.supervisor_has_ended());
    assert!(Mark(mark.0 ^ 1).supervisor_has_ended(), "another start time");
    assert!(Mark(PART_MASK << PID_SHIFT).supervisor_has_ended(), "no such process");
}

/// A process that only waits.
fn sleeper() -> (std::process::Child, Identity) {
    let child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let id = table::identity(i32::try_from(child.id()).unwrap()).unwrap();
    (child, id)
}

/// The letter for what a process does: `T` once it is stopped.
fn state(id: Identity) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.pid())).unwrap();
    stat.rsplit(") ").next().unwrap()[..1].to_owned()
}

#[test]
fn all_that_was_left_is_stopped_before_any_of_it_is_killed() {
    let ((mut one, first), (mut other, second)) = (sleeper(), sleeper());
    let looks = std::cell::Cell::new(0);
    let wait_until_stopped = |id: Identity| {
        let limit = Instant::now() + KILL_LIMIT;
        while state(id) != "T" {
            assert!(Instant::now() < limit, "{id:?} is not stopped, but {}", state(id));
            std::thread::yield_now();
        }
    };
    let look = || {
        looks.set(looks.get() + 1);
        match looks.get() {
            1 => vec![first],
            // The first process has started the second before it was stopped.
            2 => {
                wait_until_stopped(first);
                vec![first, second]
            }
            3 => {
                wait_until_stopped(first);
                wait_until_stopped(second);
                vec![first, second]
            }
            _ => [first, second].into_iter().filter(|id| id.is_alive()).collect(),
        }
    };
    assert_eq!(kill_all(look, Instant::now() + Duration::from_secs(60)), 2);
    for child in [&mut one, &mut other] {
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::SIGKILL as i32));
    }
}

#[test]
fn waiting_ends_at_once_when_no_marked_process_is_left() {
    let looks = std::cell::Cell::new(0);
    let look = || {
        looks.set(looks.get() + 1);
        Vec::new()
    };
    assert_eq!(kill_all(look, Instant::now() + Duration::from_secs(60)), 0);
    assert_eq!(looks.get(), 1);
}

#[test]
fn descendants_of_a_marked_process_are_found_in_every_session_but_not_the_process_itself() {
    mark_this_process();
    // As if a supervisor ran below this one: its limit must be lower, because a limit can only go down.
    let above = getrlimit(Resource::Rttime).maximum.unwrap();
    mark_this_process();
    assert!(getrlimit(Resource::Rttime).maximum.unwrap() < above);

    let mark = Mark::of_supervisor(std::process::id()).unwrap();
    let mut left = std::process::Command::new("setsid").args(["sleep", "1000"]).spawn().unwrap();
    let pid = i32::try_from(left.id()).unwrap();
    assert!(marked_with(mark).iter().any(|id| id.pid() == pid));
    assert!(marked_with(mark).iter().all(|id| id.pid() != i32::try_from(std::process::id()).unwrap()));
    assert!(marked_with(Mark(mark.0 ^ 1)).is_empty(), "another supervisor's");
    left.kill().unwrap();
    left.wait().unwrap();
    assert!(marked_with(mark).iter().all(|id| id.pid() != pid));
}

#[test]
fn a_supervisor_that_is_below_too_many_others_is_still_marked() {
    let mark = Mark::of_supervisor(std::process::id()).unwrap();
    for _ in 0..=LEVEL_MASK + 2 {
        mark_this_process();
        assert_eq!(read_mark(i32::try_from(std::process::id()).unwrap()), Some(mark));
    }
}
