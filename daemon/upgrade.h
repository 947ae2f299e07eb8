/* SPDX-License-Identifier: MIT */
/*
 * upgrade.h - the program file is looked at before the daemon stops for it.
 *
 * The happy path: upgrade_new remembers at the start where the program file is; when somebody asks
 * for an upgrade, upgrade_check runs what is there by then with --check-config and the daemon's own
 * arguments, and tells whether it can be run and would start (trial.h); then with --version, and
 * tells whether it is an rdmad. Nothing of the daemon has changed until then. The file is run by a
 * thread of its own, for UPGRADE_CHECK_MS at most, so the control thread waits for nothing.
 */
#ifndef RDMAD_UPGRADE_H
#define RDMAD_UPGRADE_H

#include "daemon/base/error.h"

#define UPGRADE_CHECK_MS 10000u

struct mailbox;
struct upgrade;

/* argv: the daemon's, for as long as the upgrade lives. NULL: out of memory. */
struct upgrade *upgrade_new(char **argv, struct mailbox *reply_to);
/* Gives up what is being checked (checked is called before this returns, and so is all that waits
 * in the mailbox), and frees. NULL is allowed. */
void upgrade_free(struct upgrade *u);

/* As it was found when the daemon started, or as it was given for the upgrade that was good. */
const char *upgrade_program(const struct upgrade *u);
/* program: another file, which is the daemon's from then on if it is good; NULL: its own, as it is
 * now. env: in which it is run; freed by this, whatever comes of it. checked: the file is good, or
 * what is wrong with it. RDMAD_E_BUSY: one is being checked. */
typedef void upgrade_checked(void *arg, const struct error *result);
int upgrade_check(struct upgrade *u, const char *program, char **env, upgrade_checked *checked,
                  void *arg, struct error *err);

#endif
