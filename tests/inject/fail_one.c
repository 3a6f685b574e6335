/* Runs a program in which one system call fails: the NTH of this NUMBER, whichever of its threads makes it. The call is not carried out.
   LOG gets a line that says which call it was. It ends as the program ends.

       fail_one NUMBER NTH ERROR LOG PROGRAM ARGUMENT... */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *link_of(pid_t pid, const char *name) {
    static char path[64], target[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = 0;
    return target;
}

/* An argument: its number, the file that this is a descriptor of, or the text that it points to. */
static void print_argument(FILE *to, pid_t pid, unsigned long long argument) {
    char text[200] = {0}, name[32];
    struct iovec here = {text, sizeof text - 1}, there = {(void *)argument, sizeof text - 1};
    snprintf(name, sizeof name, "fd/%d", (int)argument);
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) > 0 && text[0] >= ' ' && text[0] <= '~')
        fprintf(to, "\"%.*s\"", (int)strcspn(text, "\n"), text);
    else
        fprintf(to, "%d, %s", (int)argument, link_of(pid, name));
}

static int number_of(const char *error) {
    for (int number = 1; number < 4096; number++) {
        const char *name = strerrorname_np(number);
        if (name && strcmp(name, error) == 0) return number;
    }
    return 0;
}

/* Has the kernel ask about each call of this number. What comes back is listened at. */
static int listener_of(unsigned number) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

int main(int count, char **arguments) {
    int error = count > 5 ? number_of(arguments[3]) : 0;
    FILE *log = count > 5 ? fopen(arguments[4], "we") : NULL;
    char program[PATH_MAX];
    if (!error || !log || !realpath(arguments[5], program)) return 124;
    volatile int *listener = mmap(NULL, sizeof *listener, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *listener = -2;
    /* Both have the same descriptors until it is executed. */
    pid_t child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        *listener = listener_of(atoi(arguments[1]));
        if (*listener >= 0) execv(program, arguments + 5);
        perror("fail_one");
        _exit(125);
    }
    while (*listener == -2) usleep(100);
    struct pollfd polled[] = {{*listener, POLLIN, 0}, {syscall(SYS_pidfd_open, child, 0), POLLIN, 0}};
    int made = 0, nth = atoi(arguments[2]), has_begun = 0;
    while (poll(polled, 2, -1) > 0 && !(polled[1].revents & POLLIN)) {
        struct seccomp_notif asked = {0};
        if (ioctl(*listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) continue;
        struct seccomp_notif_resp answer = {asked.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        has_begun = has_begun || strcmp(link_of(asked.pid, "exe"), program) == 0;
        if (has_begun && ++made == nth) {
            answer.error = -error;
            answer.flags = 0;
            print_argument(log, asked.pid, asked.data.args[0]);
            fputs(", ", log);
            print_argument(log, asked.pid, asked.data.args[1]);
            fprintf(log, " = %s (%s)\n", arguments[3], strerror(error));
        }
        /* A signal has come first: the call is made once more. */
        if (ioctl(*listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) != 0 && answer.error) {
            made--;
            rewind(log);
            (void)!ftruncate(fileno(log), 0);
        }
        fflush(log);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
}
