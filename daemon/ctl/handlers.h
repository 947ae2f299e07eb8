/* SPDX-License-Identifier: MIT */
/*
 * handlers.h - what may be called, for the table of methods.c. Internal to ctl/.
 */
#ifndef RDMAD_CTL_HANDLERS_H
#define RDMAD_CTL_HANDLERS_H

#include "daemon/ctl/call.h"

ctl_handler ctl_status, ctl_config_show;                     /* status.c */
ctl_handler ctl_session_show, ctl_pool_show, ctl_lease_show; /* show.c */
ctl_handler ctl_peer_show, ctl_link_show;                    /* show.c */
ctl_handler ctl_channel_show, ctl_service_show;              /* show_channel.c */
ctl_handler ctl_user_show;                                   /* show_user.c */
ctl_handler ctl_events;                                      /* events.c */
ctl_handler ctl_trace;                                       /* trace.c */
ctl_handler ctl_why;                                         /* why.c */
ctl_handler ctl_device_show;                                 /* device.c */
ctl_handler ctl_lease_revoke, ctl_peer_add, ctl_reload;      /* act.c */
ctl_handler ctl_upgrade;                                     /* act.c */
ctl_handler ctl_log_level;                                   /* act.c */
ctl_handler ctl_session_kick;                                /* act.c */
ctl_handler ctl_session_pause, ctl_session_resume;           /* act.c */
ctl_handler ctl_policy_show, ctl_limit_show, ctl_limit_set;  /* policy.c */
ctl_handler ctl_drain, ctl_drain_show;                       /* drain.c */
ctl_handler ctl_metrics;                                     /* metrics_door.c */

#endif
