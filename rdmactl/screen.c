/* SPDX-License-Identifier: MIT */
/*
 * screen.c - modes of the terminal, and the few of its codes that every one knows.
 */
#include "rdmactl/screen.h"
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios former;
static bool begun;

bool screen_begin(void) {
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &former))
        return false;
    struct termios now = former;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    now.c_cc[VMIN] = 0;
    now.c_cc[VTIME] = 0;
    now.c_cc[VSUSP] = _POSIX_VDISABLE;
    now.c_cc[VQUIT] = _POSIX_VDISABLE; /* it would kill us, and the terminal stay as it is */
    if (tcsetattr(STDIN_FILENO, TCSANOW, &now))
        return false;
    begun = true;
    fputs("\033[?1049h\033[?25l", stdout); /* the other page, without a cursor */
    return true;
}

void screen_end(void) {
    if (!begun)
        return;
    begun = false;
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &former);
}

void screen_clear(void) {
    fputs("\033[H\033[J", stdout);
}

void screen_size(unsigned *rows, unsigned *columns) {
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;
    *rows = known ? size.ws_row : 24;
    *columns = known ? size.ws_col : 80;
    if (*rows < 2)
        *rows = 2;
    if (*columns < 20)
        *columns = 20;
}

/* One that sends several bytes, as the arrows do, is none: the first is ESC. */
int screen_key(void) {
    char bytes[16];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n <= 0)
        return -1;
    return bytes[0] == '\033' ? 0 : (unsigned char)bytes[n - 1];
}
