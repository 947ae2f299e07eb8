/* SPDX-License-Identifier: MIT */
/*
 * fetch_again.c - see fetch.h.
 *
 * After each try that fails it waits a little, where a signal ends it. Calls that wait for a daemon
 * are short, or of a session that was just opened.
 */
#include "rdmactl/cli.h"
#include "rdmactl/fetch.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define TRY_AGAIN_MS 200
#define ATTACH_MS 1000
#define LOOK_S 1.0
#define NEXT_DAEMON_MS 30000u /* as the library waits by default */

static uint64_t outage_most_ms(void) {
    return cli.timeout_ms ? 2 * cli.timeout_ms : NEXT_DAEMON_MS;
}

/* In place of the bar, which is drawn anew below it. */
static void fetch_say(const struct fetch *f, const char *said) {
    char text[1024];
    if (!cli.json)
        fprintf(stderr, "%srdmactl: %s\n", f->progress.shown ? "\r\033[K" : "",
                cli_safe_text(text, sizeof(text), said));
}

/* Begins one, if none has or something has come since. */
static void outage_begin(struct fetch *f, double since_s) {
    struct outage *o = &f->outage;
    if (!o->since_s || f->reading.taken > o->taken)
        *o =
            (struct outage){.since_s = since_s, .taken = f->reading.taken, .looked_s = o->looked_s};
}

static void outage_tell(struct fetch *f, const char *why) {
    char text[sizeof(f->reading.lost.text) + CELL_MAX + 40], span[CELL_MAX];
    if (f->outage.told)
        return;
    f->outage.told = true;
    snprintf(text, sizeof(text), "%s; trying again for %s at most", why,
             cli_human_seconds(span, (double)outage_most_ms() / 1e3));
    fetch_say(f, text);
}

/* EXIT_GOOD while it may last. */
static int outage_go_on(struct fetch *f) {
    char span[CELL_MAX];
    double now = cli_now_s();
    outage_begin(f, now);
    double lasts_s = now - f->outage.since_s;
    if (lasts_s >= (double)outage_most_ms() / 1e3)
        return cli_fail(f->reading.lost.code, "%s (tried again for %s)", f->reading.lost.text,
                        cli_human_seconds(span, lasts_s));
    outage_tell(f, f->reading.lost.text);
    return EXIT_GOOD;
}

void fetch_look(struct fetch *f) {
    char why[sizeof(f->reading.lost.text)];
    double now = cli_now_s(), heard_s = f->reading.heard_s;
    if (f->reading.paused || now - heard_s < LOOK_S || now - f->outage.looked_s < LOOK_S)
        return;
    f->outage.looked_s = now;
    if (daemon_listens())
        return;
    outage_begin(f, heard_s);
    snprintf(why, sizeof(why), "no rdmad listens in %s any more", cli.dir);
    outage_tell(f, why);
}

void fetch_hear(struct fetch *f) {
    struct rdmad_event event = RDMAD_EVENT_INIT;
    while (f->session && !f->lost_reason && !rdmad_next_event(f->session, 0, &event)) {
        switch (event.type) {
        case RDMAD_EVENT_SESSION_LOST:
            f->lost_reason = event.reason;
            snprintf(f->lost_text, sizeof(f->lost_text), "%s", event.text);
            break;
        case RDMAD_EVENT_PAUSED:
        case RDMAD_EVENT_RESUMED:
            f->reading.paused = event.type == RDMAD_EVENT_PAUSED;
            fetch_say(f, event.text);
            break;
        case RDMAD_EVENT_SESSION_RESUMED: /* a pause ends with its daemon */
            f->reading.paused = false;
            break;
        default:
            break;
        }
        event = (struct rdmad_event)RDMAD_EVENT_INIT;
    }
}

static int keep_end(void *arg, uint64_t piece, const void *data, uint64_t size) {
    (void)piece;
    memcpy(arg, data, size);
    return EXIT_GOOD;
}

/* Is that which is behind the URI now what was there before? The footer has the checksum of all
 * checksums in it. Without one only the number tells, which no other lease has. */
static int fetch_compare(struct fetch *f) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    struct bundle_footer footer;
    uint8_t end[sizeof(footer)];
    struct reading at_end = f->reading;
    int code = EXIT_GOOD;
    rdmad_lease_get_info(f->lease, &info);
    bool same = info.length == f->length;
    if (same && f->contents.summed) {
        reading_start(&at_end, f->length - sizeof(end), sizeof(end), sizeof(end));
        at_end.take = keep_end;
        at_end.arg = end;
        while (!code && !reading_over(&at_end))
            code = signals_take(f->signals) ? fetch_interrupted(f) : reading_turn(&at_end);
        f->reading.lost = at_end.lost;
        same = !code && bundle_judge(end, f->length, &footer) &&
               !memcmp(footer.root, f->contents.root, sizeof(footer.root));
    } else if (same) {
        same = info.id == f->lease_id;
    }
    if (code || same)
        return code;
    f->gone = true;
    return cli_fail("RDMAD_E_NO_LEASE",
                    "what is shared as %s now is not what this fetch began with%s", f->uri,
                    f->contents.summed ? "" : ", as far as can be told without checksums");
}

static void fetch_drop(struct fetch *f) {
    rdmad_close(f->session);
    f->session = NULL;
    f->lease = NULL;
    f->lost_reason = 0;
}

static int fetch_attach(struct fetch *f) {
    int rc = cli_session_try("rdmactl-fetch", -1, &f->session);
    if (!rc) {
        patience_begin("attach to the lease", PATIENCE_ACT_MS);
        rc = rdmad_lease_attach(f->session, f->uri, ATTACH_MS, &f->lease);
        patience_end();
    }
    return rc ? reading_failed(&f->reading, rc, rdmad_last_error(f->session))
              : reading_open(&f->reading, f->session, f->lease);
}

/* In place of a session or a handle that has ended. If that cannot be yet nothing is left of it. */
static int fetch_attach_anew(struct fetch *f) {
    const struct reading was = f->reading;
    fetch_drop(f);
    int code = fetch_attach(f);
    if (!code) {
        reading_restore(&f->reading, &was);
        code = fetch_compare(f);
    }
    if (code == READING_LOST) {
        const struct failure lost = f->reading.lost;
        fetch_drop(f);
        f->reading = was;
        f->reading.lost = lost;
    }
    return code;
}

/* A session that was ended on purpose ends the fetch. */
static int fetch_hear_end(struct fetch *f) {
    fetch_hear(f);
    if (f->lost_reason && !reading_may_come(f->lost_reason))
        return cli_fail(rdmad_errname(f->lost_reason), "%s", f->lost_text);
    return EXIT_GOOD;
}

int fetch_again(struct fetch *f) {
    int code = fetch_hear_end(f); /* before it says that it tries again */
    if (code)
        return code;
    code = READING_LOST;
    while (code == READING_LOST) {
        struct pollfd wake = {.fd = f->signals, .events = POLLIN};
        struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
        code = outage_go_on(f);
        if (code)
            return code;
        if (poll(&wake, 1, TRY_AGAIN_MS) > 0 && signals_take(f->signals))
            return fetch_interrupted(f);
        if ((code = fetch_hear_end(f)))
            return code;
        if (f->lease)
            rdmad_lease_get_info(f->lease, &info);
        f->gone = info.ended && !reading_may_come(info.ended);
        if (f->gone)
            return cli_fail(rdmad_errname(info.ended), "%s", f->reading.lost.text);
        if (!f->lost_reason && f->lease && !info.ended && !f->reading.inflight) {
            reading_repeat(&f->reading, (double)outage_most_ms() / 1e3);
            return EXIT_GOOD;
        }
        code = fetch_attach_anew(f);
    }
    return code;
}
