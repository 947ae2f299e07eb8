/* SPDX-License-Identifier: MIT */
/*
 * cluster.h - what the verbs of `cluster` share: which identity directory, and telling the daemon
 * that its files have changed. They work on files; a daemon need not run.
 */
#ifndef RDMACTL_CLUSTER_H
#define RDMACTL_CLUSTER_H

#include "common/uri.h"
#include "pki/dir.h"
#include "rdmactl/cli.h"

#define ADDRESS_MAX (RDMAD_HOST_MAX + 16u)

struct cluster_place {
    char dir[PKI_PATH_MAX];
    bool daemon;                   /* it answers, and this is its identity directory */
    char node[RDMAD_NAME_MAX + 1]; /* what it calls itself; "": no daemon answers */
    char address[ADDRESS_MAX];     /* where others reach it; "": not known, or no daemon answers */
    unsigned port;                 /* where it listens; 0: no daemon answers */
    bool loopback;                 /* it listens where nobody else can reach it */
    int pid;                       /* of the daemon; 0: the same */
};
/* The directory of --identity (NULL: not given), else the daemon's; if the main instance does not
 * run, where it would look. EXIT_GOOD, or reports that it is not known. */
int cluster_find(const char *identity, struct cluster_place *out);

/* Reports err, whatever its code is; returns EXIT_FAILED. */
int cluster_fail(const struct cluster_place *place, int rc, const struct pki_error *err);

/* Has the daemon take up changed files. NULL: done; "": there is no daemon; or why not. */
const char *cluster_reload(const struct cluster_place *place, char *buf, size_t size);
/* What came of that, into doc, or on standard error. */
void cluster_report_reload(const char *outcome, json_t *doc);

/* Says, on standard error, that the daemon may only read there until it is started anew: what a
 * service manager lets it write was decided when it started, perhaps without this directory. */
void cluster_warn_read_only(const struct cluster_place *place);

/* Says, on standard error, that the daemon listens on loopback, where no other machine reaches it;
 * unless that is the address that was given (NULL: none was). */
void cluster_warn_loopback(const struct cluster_place *place, const char *given);

/* The host's name as the name of a node. */
int cluster_own_name(const struct cluster_place *place, const char *given,
                     char out[RDMAD_NAME_MAX + 1]);

int cmd_cluster_init(const struct command *self, int argc, char **argv);
int cmd_cluster_join(const struct command *self, int argc, char **argv);
int cmd_cluster_show(const struct command *self, int argc, char **argv);
int cmd_cluster_token(const struct command *self, int argc, char **argv);
int cmd_cluster_revoke(const struct command *self, int argc, char **argv);

#endif
