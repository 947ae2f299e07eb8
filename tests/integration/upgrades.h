/* SPDX-License-Identifier: MIT */
/*
 * upgrades.h - a daemon becomes the next one, as an operator has it: its program file is exchanged,
 * and rdmactl upgrade is asked for that. It may have settings of its own.
 */
#ifndef RDMAD_TEST_UPGRADES_H
#define RDMAD_TEST_UPGRADES_H

#include "tests/support/harness.h"

/* What rdmactl answers, or NULL and what it said. */
json_t *upgrade_try(struct tdaemon *d, char *said, size_t size);
/* It must be good, by the same process. How long clients waited, in ms, as the daemon saw it. */
double upgrade_now(struct tdaemon *d);

/* A daemon whose settings are in a file that the test may write anew, and removes. */
struct tdaemon *start_with_settings(const char *host, char path[64], const char *settings);
void settings_write(const char *path, const char *settings);

/* A program file that is the test's to exchange. */
struct program_file {
    char dir[64], path[96];
};

/* A copy of from, which the daemons that are started from now on are. */
void program_file_make(struct program_file *f, const char *from);
/* As an installation does: another file in its place. */
void program_file_put(const struct program_file *f, const char *from);
void program_file_script(const struct program_file *f, const char *script, mode_t mode);
void program_file_remove(const struct program_file *f);
/* The daemon is what the file is now. */
void program_file_expect(const struct program_file *f, const struct tdaemon *d);

#endif
