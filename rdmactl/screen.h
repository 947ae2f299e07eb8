/* SPDX-License-Identifier: MIT */
/*
 * screen.h - a terminal of which a command draws all, and that gives it keys.
 *
 * What was on it comes back with screen_end, whatever ended the command: whoever begins one catches
 * signals (signals_catch), and Ctrl-Z and Ctrl-\ are off. A process that is killed leaves it as it
 * is.
 */
#ifndef RDMACTL_SCREEN_H
#define RDMACTL_SCREEN_H

#include <stdbool.h>

/* False: standard input and output are not both a terminal, and nothing was done. */
bool screen_begin(void);
void screen_end(void); /* harmless without a begin */
/* From its top; what is drawn next replaces all. */
void screen_clear(void);
/* As it is now; at least 2 and 20. */
void screen_size(unsigned *rows, unsigned *columns);
/* The key that was pressed, when standard input is readable; 0: none of one byte; -1: there will be
 * none any more. */
int screen_key(void);

#endif
