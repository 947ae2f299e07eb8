/* SPDX-License-Identifier: MIT */
/*
 * audit.h - who was admitted, refused, granted, revoked and throttled, and why.
 *
 * AUDIT(REFUSED, "quota", audit_user(uid, pid), audit_object("session", id), ("%s", why.text))
 * leaves one event: in the log, with AUDIT_MESSAGE_ID and fields of its own, and with the
 * setting audit.file as a line of JSON too. It never waits for a disk or for the journal: a thread
 * of its own writes, behind a queue of a fixed size; what finds that full is counted, and the count
 * is written.
 *
 * How much somebody can have written is bounded by who it is and by the cause (audit_limit.h): the
 * first of a minute always is, then some, then they are counted. Text is written as printable
 * ASCII; every other byte becomes \xNN. So it can neither forge a line nor drive a terminal.
 *
 * What a client is refused needs no call of its own: serve/ tells of each refusal that
 * audit_cause_of() has a word for, when it is answered, and peer/ of those of a peer's attaches.
 *
 * Thread-safe. It takes a lock for a few lines, so a worker leaves it to the control thread, which
 * its mails reach anyway.
 */
#ifndef RDMAD_BASE_AUDIT_H
#define RDMAD_BASE_AUDIT_H

#include "daemon/base/audit_event.h"
#include "daemon/base/error.h"
#include "daemon/base/log.h"

/* cause: a literal that never changes, lower case, words with dots: "quota.leases", "tls.expired".
 * One of "Causes" in rdmad(8). text: a sentence, of at most RDMAD_TEXT_MAX bytes; more is cut. */
void audit_write(enum audit_event event, const char *cause, struct audit_who who,
                 struct audit_object object, const char *text);

/* AUDIT(REFUSED, cause, who, object, (format, args...)) */
#define AUDIT(event, cause, who, object, message) \
    audit_write(AUDIT_##event, (cause), (who), (object), log_format message)

/* How many there were so far, written or not. */
struct audit_counts;
void audit_count(struct audit_counts *out);

/* Starts the thread. Until then, and after audit_stop(), events go to the log at once. file: where
 * lines of JSON are appended, made with mode 0600; "": nowhere. Fails as audit_file_open does. */
int audit_start(const char *file, struct error *err);
/* On reload: the thread opens the file again, under this name, and says in the log if it cannot. */
void audit_reopen(const char *file);
/* Writes what is queued, for a second at most, and ends the thread. */
void audit_stop(void);

#endif
