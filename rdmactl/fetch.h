/* SPDX-License-Identifier: MIT */
/*
 * fetch.h - one fetch: where it comes from, where it goes, and how far it is.
 *
 * A daemon that is lost under it does not end it: READs can be repeated. While the session and the
 * handle of the lease live on, so does the fetch with them; when they have ended it opens and
 * attaches anew, by the same URI, and goes on if what is there now is what was there before. All of
 * an outage together takes no longer than rdmactl waits for a next daemon.
 */
#ifndef RDMACTL_FETCH_H
#define RDMACTL_FETCH_H

#include "rdmactl/contents.h"
#include "rdmactl/reading.h"
#include "rdmactl/target.h"

struct outage {
    bool told;       /* to who waits */
    double looked_s; /* whether there is a daemon, last */
    double since_s;  /* 0: there was none */
    uint64_t taken;  /* pieces, when it began */
};

struct fetch {
    const char *uri, *file;
    bool no_resume;
    uint64_t max_entries, max_depth;
    struct target target;
    int signals;
    rdmad_session *session;
    rdmad_lease *lease;
    uint64_t lease_id, length; /* as first attached */
    struct reading reading;
    struct contents contents;
    uint64_t *wanted;       /* pieces that are not there; NULL: all */
    uint64_t before, bytes; /* that were there, and that are there now */
    char fabric[16];
    struct progress progress;
    struct outage outage;
    int lost_reason; /* RDMAD_E_*, of a session that was lost; 0: it is there */
    char lost_text[RDMAD_TEXT_MAX + 1];
    bool gone; /* nothing of it is behind the URI any more */
};

/* All return an exit code and report. */
int fetch_interrupted(const struct fetch *f);
/* Takes what the session has to tell, and says what concerns who waits. */
void fetch_hear(struct fetch *f);
/* While nothing comes: is there a daemon at all? What is asked for after one went waits for the
 * next in the library, and no READ tells. */
void fetch_look(struct fetch *f);
/* After READING_LOST: goes on where reading stands. EXIT_GOOD: the next turn may tell more. */
int fetch_again(struct fetch *f);

#endif
