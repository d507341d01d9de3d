//! A filter of system calls that denies io_uring, as container runtimes install it.

use std::io;

/// Answers `io_uring_setup` with `errno` on the calling thread, and on the threads and processes that
/// it starts from now on. It cannot be undone.
pub(crate) fn deny_io_uring(errno: i32) -> io::Result<()> {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump_if_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    // The call's number is the first word of what the filter sees.
    let mut filter = [
        instruction(load, 0, 0, 0),
        instruction(jump_if_equal, 0, 1, libc::SYS_io_uring_setup as u32),
        instruction(answer, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        instruction(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: takes no pointers. Without new privileges, no right is needed to install a filter.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program and its instructions live until the call returns; the kernel copies them.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn instruction(code: u16, jump_true: u8, jump_false: u8, operand: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: jump_true, jf: jump_false, k: operand }
}
