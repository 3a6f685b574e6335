/* Sends the program SIGHUP at its first call of isatty, which comes before it has read its configuration or has a handler for
   any signal. Load it with LD_PRELOAD. */
#include <signal.h>
#include <termios.h>
#include <unistd.h>

int isatty(int file) {
    static int sent;
    struct termios settings;
    if (!sent++) kill(getpid(), SIGHUP);
    return tcgetattr(file, &settings) == 0;
}
