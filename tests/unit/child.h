/* SPDX-License-Identifier: MIT */
/*
 * child.h - what ends the program on purpose is tried in a child: it must end by SIGABRT and say
 * certain words on standard error.
 */
#ifndef RDMAD_TESTS_CHILD_H
#define RDMAD_TESTS_CHILD_H

/* Runs body in a child. Fails the test when the child ends in another way, or without the words. */
void child_aborts(void (*body)(void), const char *words);
/* The same for a child that must come to its end; words may be NULL. */
void child_lives(void (*body)(void), const char *words);
/* By that signal. */
void child_dies(void (*body)(void), int signal, const char *words);

#endif
