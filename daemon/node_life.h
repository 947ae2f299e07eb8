/* SPDX-License-Identifier: MIT */
/*
 * node_life.h - which of its node's lives this daemon is, and a number of this life alone.
 *
 * The node's secret is kept in RUNTIME_DIR/node.secret (mode 0600) with the count of its lives, so
 * it lasts as long as that directory does: over every crash and restart, not over a reboot where it
 * is in memory. What an earlier life has left at a peer is then found by silence, like that of a
 * node that does not come back. A daemon run by hand in a directory of its own is a node of its
 * own. The machine's id is mixed in, so that a copy of the directory on another machine is another
 * node.
 *
 * A file that is damaged, or not ours alone, is replaced: that is a new node.
 */
#ifndef RDMAD_NODE_LIFE_H
#define RDMAD_NODE_LIFE_H

#include "daemon/base/error.h"
#include "daemon/state/state.h"

/* The directory is locked, so this is its only daemon. Fills in node_id, life, resume_key and
 * line_secret. */
int node_life_load(const char *runtime_dir, struct state *st, struct error *err);
/* This life has not begun, and nobody was told of it: it is not counted. */
void node_life_take_back(const char *runtime_dir);

#endif
