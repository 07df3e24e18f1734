/* A disk that fails, and a disk that remembers: preloaded into posse by the tests of this folder.
 *
 * Before `main` it starts a guard process and puts a filter on every call that changes a file. The kernel then asks the
 * guard before each such call of posse and of everything posse starts. So calls that go past the C library are seen too,
 * and the program under test is the ordinary one. The guard lets a call pass, fails it, does half of it, or notes it.
 *
 * LAB_ROOT=DIR       only files below this folder count
 * LAB_FAIL_AT=N      the N-th counted call fails
 * LAB_ERRNO=E        with this error
 * LAB_HOW=once|stays|short   only that one; it and all after it; half of it is written and all after it fail
 * LAB_JOURNAL=FILE   every change, sync and printed byte in the order they were asked for
 * LAB_REPORT=FILE    at the end: how many calls counted, and which one failed first
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "the laboratory knows x86_64 and aarch64"
#endif

/* The bit of O_TMPFILE that no other flag has: O_TMPFILE itself says O_DIRECTORY too. */
#define NAMELESS 020000000
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#define CHANGING_FLAGS (O_CREAT | O_TRUNC | NAMELESS)

/* No call of posse writes more at once; a longer one would be noted up to here and the test would see it as lost. */
#define NOTED_BYTES_MAX (16u << 20)

/* ---- what was asked for ---- */

static char root[PATH_MAX];
static size_t root_length;
static long fail_at;
static int fail_errno;
static enum { ONCE, STAYS, SHORT } how;
static int journal = -1;
static char report[PATH_MAX];
static char printed_to[64]; /* what the program's stdout is, as /proc names it */

static long counted;
static long failed_at;
static char failed_what[PATH_MAX + 64];

/* ---- looking at the asking process ---- */

static void proc_link(char *into, size_t size, pid_t pid, const char *what, long number) {
    char name[64];
    if (number < 0)
        snprintf(name, sizeof name, "/proc/%d/%s", pid, what);
    else
        snprintf(name, sizeof name, "/proc/%d/%s/%ld", pid, what, number);
    ssize_t length = readlink(name, into, size - 1);
    into[length < 0 ? 0 : length] = 0;
}

static ssize_t peek(pid_t pid, uint64_t from, void *into, size_t length) {
    struct iovec ours = {into, length}, theirs = {(void *)(uintptr_t)from, length};
    return process_vm_readv(pid, &ours, 1, &theirs, 1, 0);
}

/* A text ends somewhere in its page or in the next; reading page by page never runs into what is not there. */
static void peek_text(pid_t pid, uint64_t from, char *into, size_t size) {
    size_t at = 0;
    while (at + 1 < size) {
        size_t room = 4096 - (from + at) % 4096;
        if (size - 1 - at < room)
            room = size - 1 - at;
        ssize_t got = peek(pid, from + at, into + at, room);
        if (got <= 0)
            break;
        if (memchr(into + at, 0, got))
            return;
        at += got;
    }
    into[at] = 0;
}

/* The path a call names, made absolute; `.` and `..` inside it do not occur where it matters. */
static void named(char *into, size_t size, pid_t pid, int folder, uint64_t text) {
    char name[PATH_MAX], base[PATH_MAX];
    peek_text(pid, text, name, sizeof name);
    if (name[0] == '/') {
        snprintf(into, size, "%s", name);
        return;
    }
    if (folder == AT_FDCWD)
        proc_link(base, sizeof base, pid, "cwd", -1);
    else
        proc_link(base, sizeof base, pid, "fd", folder);
    if (strcmp(name, ".") == 0)
        snprintf(into, size, "%s", base);
    else
        snprintf(into, size, "%s/%s", base, name);
}

static int is_below(const char *path) {
    return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

static uint64_t inode_of(pid_t pid, int fd, struct stat *facts) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", pid, fd);
    return stat(name, facts) == 0 ? facts->st_ino : 0;
}

/* Two may append at once: where each ends up, only the order of the journal says. */
#define AT_THE_END UINT64_MAX

static uint64_t position_of(pid_t pid, int fd) {
    char name[64], text[256];
    snprintf(name, sizeof name, "/proc/%d/fdinfo/%d", pid, fd);
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length < 0 ? 0 : length] = 0;
    unsigned long long position = 0;
    unsigned flags = 0;
    sscanf(text, "pos: %llu flags: %o", &position, &flags);
    return flags & O_APPEND ? AT_THE_END : position;
}

/* The file of a handle in the asking process, as a handle of ours that shares its position. */
static int borrow(pid_t thread, int fd) {
    char name[64], line[128];
    pid_t pid = thread;
    snprintf(name, sizeof name, "/proc/%d/status", thread);
    FILE *status = fopen(name, "re");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "Tgid: %d", &pid) == 1)
            break;
    if (status)
        fclose(status);
    int process = syscall(SYS_pidfd_open, pid, 0);
    if (process < 0)
        return -1;
    int file = syscall(SYS_pidfd_getfd, process, fd, 0);
    close(process);
    return file;
}

/* ---- the journal ---- */

static void put(const void *bytes, size_t length) {
    for (const char *at = bytes; length;) {
        ssize_t wrote = write(journal, at, length);
        if (wrote <= 0)
            _exit(3);
        at += wrote;
        length -= wrote;
    }
}

/* kind, inode, offset, path, data: little numbers first, so that a reader needs no table. */
static void note(char kind, const char *path, uint64_t inode, uint64_t offset, const void *data, uint32_t length) {
    if (journal < 0)
        return;
    uint32_t path_length = strlen(path);
    char head[25];
    head[0] = kind;
    memcpy(head + 1, &inode, 8);
    memcpy(head + 9, &offset, 8);
    memcpy(head + 17, &path_length, 4);
    memcpy(head + 21, &length, 4);
    put(head, sizeof head);
    put(path, path_length);
    put(data, length);
}

/* ---- one call ---- */

struct call {
    pid_t pid;
    int number;
    uint64_t *args;
    const char *name;
    char path[PATH_MAX];
    char second[PATH_MAX];
    int fd;         /* of a call on an open file, or -1 */
    int writes;     /* 1: one buffer, 2: a list of them */
    int64_t offset; /* -1: where the file stands */
};

/* The bytes of a write, gathered; the caller frees them. */
static char *bytes_of(const struct call *call, size_t *length) {
    struct iovec list[64];
    size_t count = 1;
    if (call->writes == 1) {
        list[0].iov_base = (void *)(uintptr_t)call->args[1];
        list[0].iov_len = call->args[2];
    } else {
        count = call->args[2] < 64 ? call->args[2] : 64;
        if (peek(call->pid, call->args[1], list, count * sizeof list[0]) < 0)
            count = 0;
    }
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += list[i].iov_len;
    if (NOTED_BYTES_MAX < total)
        total = NOTED_BYTES_MAX;
    char *bytes = malloc(total ? total : 1);
    size_t at = 0;
    for (size_t i = 0; bytes && i < count && at < total; i++) {
        size_t part = list[i].iov_len < total - at ? list[i].iov_len : total - at;
        ssize_t got = peek(call->pid, (uintptr_t)list[i].iov_base, bytes + at, part);
        if (got <= 0)
            break;
        at += got;
    }
    *length = at;
    return bytes;
}

static uint64_t opening_flags(struct call *call) {
    uint64_t flags = 0;
    switch (call->number) {
#ifdef SYS_open
    case SYS_open:
        return call->args[1];
    case SYS_creat:
        return O_CREAT | O_TRUNC;
#endif
    case SYS_openat:
        return call->args[2];
    case SYS_openat2:
        peek(call->pid, call->args[2], &flags, sizeof flags);
    }
    return flags;
}

/* What a call is about; 0 when it is no change of a file. */
static int understand(struct call *call) {
    uint64_t *args = call->args;
    call->fd = -1;
    call->offset = -1;
#define ON_FILE(text) (call->name = text, call->fd = (int)args[0], proc_link(call->path, PATH_MAX, call->pid, "fd", (int)args[0]), 1)
#define AT(text, folder, name_at) (call->name = text, named(call->path, PATH_MAX, call->pid, folder, args[name_at]), 1)
#define AND(folder, name_at) named(call->second, PATH_MAX, call->pid, folder, args[name_at])
    switch (call->number) {
    case SYS_write:
        call->writes = 1;
        return ON_FILE("write");
    case SYS_pwrite64:
        call->writes = 1;
        call->offset = args[3];
        return ON_FILE("pwrite");
    case SYS_writev:
        call->writes = 2;
        return ON_FILE("writev");
    case SYS_pwritev:
    case SYS_pwritev2:
        call->writes = 2;
        call->offset = args[3];
        return ON_FILE("pwritev");
    case SYS_fsync:
        return ON_FILE("fsync");
    case SYS_fdatasync:
        return ON_FILE("fdatasync");
    case SYS_ftruncate:
        return ON_FILE("ftruncate");
    case SYS_fallocate:
        return ON_FILE("fallocate");
    case SYS_copy_file_range:
        call->name = "copy_file_range";
        proc_link(call->path, PATH_MAX, call->pid, "fd", (int)args[2]);
        return 1;
#ifdef SYS_open
    case SYS_open:
        return AT("open", AT_FDCWD, 0);
    case SYS_creat:
        return AT("creat", AT_FDCWD, 0);
    case SYS_rename:
        AND(AT_FDCWD, 1);
        return AT("rename", AT_FDCWD, 0);
    case SYS_unlink:
        return AT("unlink", AT_FDCWD, 0);
    case SYS_rmdir:
        return AT("rmdir", AT_FDCWD, 0);
    case SYS_mkdir:
        return AT("mkdir", AT_FDCWD, 0);
    case SYS_link:
        AND(AT_FDCWD, 1);
        return AT("link", AT_FDCWD, 0);
#endif
    case SYS_openat:
        return AT("open", (int)args[0], 1);
    case SYS_openat2:
        return opening_flags(call) & CHANGING_FLAGS ? AT("open", (int)args[0], 1) : 0;
#ifdef SYS_renameat
    case SYS_renameat:
#endif
    case SYS_renameat2:
        AND((int)args[2], 3);
        return AT("rename", (int)args[0], 1);
    case SYS_unlinkat:
        return AT(args[2] & AT_REMOVEDIR ? "rmdir" : "unlink", (int)args[0], 1);
    case SYS_mkdirat:
        return AT("mkdir", (int)args[0], 1);
    case SYS_linkat:
        AND((int)args[2], 3);
        return AT("link", (int)args[0], 1);
    case SYS_truncate:
        return AT("truncate", AT_FDCWD, 0);
    }
    return 0;
}

static void note_opening(struct call *call) {
    uint64_t flags = opening_flags(call);
    struct stat facts;
    if (flags & NAMELESS)
        return; /* has no name yet: its writes and its link tell of it */
    int there = lstat(call->path, &facts) == 0;
    if (!there && flags & O_CREAT)
        note('C', call->path, 0, 0, "", 0);
    else if (there && flags & O_TRUNC && S_ISREG(facts.st_mode))
        note('T', call->path, facts.st_ino, 0, "", 0);
}

static void note_link(struct call *call) {
    struct stat facts;
    char shown[PATH_MAX] = "";
    /* `/proc/self/fd/N` means the asking process, not us. */
    if (strncmp(call->path, "/proc/self/fd/", 14) == 0) {
        int fd = atoi(call->path + 14);
        proc_link(shown, sizeof shown, call->pid, "fd", fd);
        note('L', call->second, inode_of(call->pid, fd, &facts), 0, shown, strlen(shown));
    } else if (lstat(call->path, &facts) == 0) {
        note('L', call->second, facts.st_ino, 0, call->path, strlen(call->path));
    }
}

static void note_call(struct call *call) {
    struct stat facts;
    const char *name = call->name;
    if (call->writes) {
        size_t length = 0;
        char *bytes = bytes_of(call, &length);
        uint64_t at = call->offset < 0 ? position_of(call->pid, call->fd) : (uint64_t)call->offset;
        if (bytes)
            note('W', call->path, inode_of(call->pid, call->fd, &facts), at, bytes, length);
        free(bytes);
    } else if (strcmp(name, "fsync") == 0 || strcmp(name, "fdatasync") == 0) {
        uint64_t inode = inode_of(call->pid, call->fd, &facts);
        note(S_ISDIR(facts.st_mode) ? 'F' : name[1] == 's' ? 'S' : 's', call->path, inode, 0, "", 0);
    } else if (strcmp(name, "ftruncate") == 0) {
        note('T', call->path, inode_of(call->pid, call->fd, &facts), call->args[1], "", 0);
    } else if (strcmp(name, "open") == 0 || strcmp(name, "creat") == 0) {
        note_opening(call);
    } else if (strcmp(name, "rename") == 0) {
        note('R', call->path, 0, 0, call->second, strlen(call->second));
    } else if (strcmp(name, "unlink") == 0 && lstat(call->path, &facts) == 0) {
        note('U', call->path, facts.st_ino, 0, "", 0);
    } else if (strcmp(name, "rmdir") == 0) {
        note('D', call->path, 0, 0, "", 0);
    } else if (strcmp(name, "mkdir") == 0 && lstat(call->path, &facts) != 0) { /* whether its parent is there, the reader knows */
        note('M', call->path, 0, 0, "", 0);
    } else if (strcmp(name, "link") == 0) {
        note_link(call);
    }
}

/* Taking something away works on a full disk. */
static int can_fail(const struct call *call) {
    int full = fail_errno == ENOSPC || fail_errno == EDQUOT;
    int removes = strcmp(call->name, "unlink") == 0 || strcmp(call->name, "rmdir") == 0;
    return !(full && removes);
}

/* Half of a write, done here with the program's own handle. */
static void write_half(struct call *call, struct seccomp_notif_resp *answer) {
    size_t length = 0;
    char *bytes = bytes_of(call, &length);
    int file = borrow(call->pid, call->fd);
    ssize_t wrote = -1;
    if (bytes && 0 <= file && 1 < length)
        wrote = call->offset < 0 ? write(file, bytes, length / 2) : pwrite(file, bytes, length / 2, call->offset);
    if (0 < wrote) {
        answer->flags = 0;
        answer->val = wrote;
    }
    free(bytes);
    if (0 <= file)
        close(file);
}

static void judge(struct seccomp_notif *asked, struct seccomp_notif_resp *answer) {
    struct call call = {.pid = asked->pid, .number = asked->data.nr, .args = (uint64_t *)asked->data.args};
    answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (call.number == SYS_prctl) {
        answer->flags = 0; /* whoever hides its memory hides its paths from us */
        return;
    }
    if (!understand(&call))
        return;
    if (0 <= journal && call.writes && strcmp(call.path, printed_to) == 0) {
        size_t length = 0;
        char *bytes = bytes_of(&call, &length);
        if (bytes)
            note('A', "", 0, 0, bytes, length);
        free(bytes);
        return;
    }
    if (!is_below(call.path) && !is_below(call.second))
        return;
    if (0 <= journal && strcmp(call.name, "copy_file_range") == 0) {
        answer->flags = 0;
        answer->error = -EXDEV; /* then it is written, and seen */
        return;
    }
    if (0 <= journal)
        note_call(&call);
    if (!can_fail(&call))
        return;
    counted++;
    if (!fail_at || counted < fail_at || (how == ONCE && fail_at < counted))
        return;
    if (counted == fail_at) {
        failed_at = counted;
        snprintf(failed_what, sizeof failed_what, "%s %s", call.name, call.path);
        if (how == SHORT && call.writes) {
            write_half(&call, answer);
            if (!(answer->flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE))
                return;
        }
    }
    answer->flags = 0;
    answer->error = -fail_errno;
}

/* ---- the guard ---- */

static void tell(void) {
    char beside[PATH_MAX + 8];
    if (!report[0])
        return;
    snprintf(beside, sizeof beside, "%s.new", report);
    FILE *file = fopen(beside, "we");
    if (!file)
        return;
    fprintf(file, "%ld\n%ld %s\n", counted, failed_at, failed_what);
    fclose(file);
    rename(beside, report);
}

static void guard(int listener) {
    struct seccomp_notif asked;
    struct seccomp_notif_resp answer;
    for (;;) {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        if (poll(&ready, 1, -1) < 0 && errno != EINTR)
            break;
        if (ready.revents & POLLIN) {
            memset(&asked, 0, sizeof asked);
            memset(&answer, 0, sizeof answer);
            if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
                continue;
            answer.id = asked.id;
            judge(&asked, &answer);
            ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* who asked may be dead by now */
        } else if (ready.revents & (POLLHUP | POLLERR)) {
            break; /* nobody is left who could ask */
        }
    }
    tell();
    _exit(0);
}

static void pass_handle(int socket, int fd) {
    char byte = 0, room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(socket, &message, 0) < 0)
        _exit(97);
}

static int take_handle(int socket) {
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* The guard must not hold what the program's reader waits for. */
static void let_go(int keep) {
    for (int fd = 0; fd < 256; fd++)
        if (fd != keep && fd != journal)
            close(fd);
    open("/dev/null", O_RDWR);
    if (chdir("/"))
        _exit(97);
}

/* ---- the filter ---- */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ASK BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)
#define PASS BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define IF_CALL(number, then) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), then
/* The low half of an argument, on machines whose low half comes first. */
#define IF_FLAGGED(number, argument, bits)                                                                                             \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4), LOAD(args[argument]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1), ASK, PASS

static int filter(void) {
    struct sock_filter steps[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
        PASS,
        LOAD(nr),
        IF_FLAGGED(SYS_openat, 2, CHANGING_FLAGS),
#ifdef SYS_open
        IF_FLAGGED(SYS_open, 1, CHANGING_FLAGS),
        IF_CALL(SYS_creat, ASK),
        IF_CALL(SYS_rename, ASK),
        IF_CALL(SYS_unlink, ASK),
        IF_CALL(SYS_rmdir, ASK),
        IF_CALL(SYS_mkdir, ASK),
        IF_CALL(SYS_link, ASK),
#endif
#ifdef SYS_renameat
        IF_CALL(SYS_renameat, ASK),
#endif
        IF_CALL(SYS_write, ASK),
        IF_CALL(SYS_pwrite64, ASK),
        IF_CALL(SYS_writev, ASK),
        IF_CALL(SYS_pwritev, ASK),
        IF_CALL(SYS_pwritev2, ASK),
        IF_CALL(SYS_fsync, ASK),
        IF_CALL(SYS_fdatasync, ASK),
        IF_CALL(SYS_ftruncate, ASK),
        IF_CALL(SYS_truncate, ASK),
        IF_CALL(SYS_fallocate, ASK),
        IF_CALL(SYS_copy_file_range, ASK),
        IF_CALL(SYS_openat2, ASK),
        IF_CALL(SYS_renameat2, ASK),
        IF_CALL(SYS_unlinkat, ASK),
        IF_CALL(SYS_mkdirat, ASK),
        IF_CALL(SYS_linkat, ASK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_DUMPABLE, 0, 1),
        ASK,
        PASS,
    };
    struct sock_fprog program = {.len = sizeof steps / sizeof steps[0], .filter = steps};
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static long number_of(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static void read_wishes(void) {
    snprintf(root, sizeof root, "%s", getenv("LAB_ROOT"));
    root_length = strlen(root);
    fail_at = number_of("LAB_FAIL_AT");
    fail_errno = number_of("LAB_ERRNO");
    const char *word = getenv("LAB_HOW");
    how = word && strcmp(word, "stays") == 0 ? STAYS : word && strcmp(word, "short") == 0 ? SHORT : ONCE;
    if (getenv("LAB_REPORT"))
        snprintf(report, sizeof report, "%s", getenv("LAB_REPORT"));
    if (getenv("LAB_JOURNAL"))
        journal = open(getenv("LAB_JOURNAL"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    proc_link(printed_to, sizeof printed_to, getpid(), "fd", 1);
    /* What posse starts is watched by the same guard and needs no second one. */
    const char *ours[] = {"LD_PRELOAD", "LAB_ROOT", "LAB_FAIL_AT", "LAB_ERRNO", "LAB_HOW", "LAB_JOURNAL", "LAB_REPORT"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        unsetenv(ours[i]);
}

__attribute__((constructor)) static void begin(void) {
    if (!getenv("LAB_ROOT"))
        return;
    read_wishes();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        _exit(97);
    pid_t between = fork();
    if (between == 0) {
        /* A grandchild: posse must not find a child that it has not started. */
        if (fork() != 0)
            _exit(0);
        setsid();
        prctl(PR_SET_NAME, "disk-lab");
        let_go(ends[1]);
        int listener = take_handle(ends[1]);
        if (listener < 0)
            _exit(97);
        close(ends[1]);
        guard(listener);
    }
    waitpid(between, NULL, 0);
    close(ends[1]);
    int listener = filter();
    if (listener < 0)
        _exit(96);
    pass_handle(ends[0], listener);
    close(listener);
    close(ends[0]);
    if (0 <= journal)
        close(journal);
    journal = -1;
}
