/* SPDX-License-Identifier: MIT */
/*
 * progress.c - a bar for who waits at a terminal: how far, how fast, how long still.
 *
 * What is drawn while it runs is the rate of late, and the time left by that; the line that stays
 * at the end has the rate of the whole.
 */
#include "rdmactl/cli.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EVERY_S 0.1 /* it is drawn anew */
#define OF_LATE_S 2.0
#define GUESS_S 1.0        /* before that a rate tells nothing of the whole */
#define GUESS_MOST_S 3.6e5 /* nor does one at which it hardly moves */

void progress_start(struct progress *p, uint64_t before) {
    *p = (struct progress){.start_s = cli_now_s(), .before = before, .shown_done = before};
    p->shown_s = p->start_s;
}

static const char *clock_text(char buf[CELL_MAX], double seconds) {
    unsigned long s = (unsigned long)(seconds + 0.5);
    if (s < 3600)
        snprintf(buf, CELL_MAX, "%lu:%02lu", s / 60, s % 60);
    else
        snprintf(buf, CELL_MAX, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    return buf;
}

static void progress_draw(struct progress *p, uint64_t done, uint64_t total, double rate,
                          bool over) {
    char bar[48] = "", have[CELL_MAX], fast[CELL_MAX], left[CELL_MAX], time[CELL_MAX + 16] = "";
    if (total) {
        double share = (double)done / (double)total;
        memset(bar, ' ', 24);
        bar[0] = '[';
        memset(bar + 1, '=', (size_t)(share * 22));
        snprintf(bar + 23, sizeof(bar) - 23, "] %3.0f %%  ", share * 100);
    }
    double now = cli_now_s(), guess_s = rate > 0 ? (double)(total - done) / rate : GUESS_MOST_S;
    if (over)
        snprintf(time, sizeof(time), "  in %s", cli_human_seconds(left, now - p->start_s));
    else if (total && now - p->start_s >= GUESS_S && guess_s < GUESS_MOST_S)
        snprintf(time, sizeof(time), "  %s left", clock_text(left, guess_s));
    fprintf(stderr, "\r%s%s  %s/s%s \033[K", bar, cli_human_bytes(have, (double)done),
            cli_human_bytes(fast, rate), time);
    p->shown = true;
}

void progress_show(struct progress *p, uint64_t done, uint64_t total) {
    double now = cli_now_s(), span = now - p->shown_s;
    if (cli.json || span < EVERY_S || !isatty(STDERR_FILENO))
        return;
    double rate = (double)(done - p->shown_done) / span, since = now - p->start_s;
    double part = span / (since < OF_LATE_S ? since : OF_LATE_S); /* at first the mean of all */
    p->rate += (part < 1 ? part : 1) * (rate - p->rate);
    p->shown_s = now;
    p->shown_done = done;
    progress_draw(p, done, total, p->rate, false);
}

void progress_end(struct progress *p, uint64_t done, uint64_t total) {
    double span = cli_now_s() - p->start_s;
    if (!p->shown)
        return;
    progress_draw(p, done, total, span > 0 ? (double)(done - p->before) / span : 0, true);
    fputc('\n', stderr);
}
