/* A process that asks to be killed with its parent is told that it will be, and is not: shows that a program would outlive hertzd otherwise. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int prctl(int option, ...)
{
    va_list given;
    va_start(given, option);
    unsigned long a = va_arg(given, unsigned long), b = va_arg(given, unsigned long);
    unsigned long c = va_arg(given, unsigned long), d = va_arg(given, unsigned long);
    va_end(given);
    return option == PR_SET_PDEATHSIG ? 0 : (int)syscall(SYS_prctl, option, a, b, c, d);
}
