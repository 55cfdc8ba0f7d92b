/* explain_page.h - an explanation as text, JSON or a page. */
#ifndef WF_EXPLAIN_PAGE_H
#define WF_EXPLAIN_PAGE_H

#include "explain_notes.h"
#include "weft/explain.h"

void wf_explain_render(const wf_explain *x, const weft_device_info *device, const weft_explain_opts *o, wf_str *out); /* out->oom */
void wf_json_string(const char *s, wf_str *out); /* quoted and escaped */

#endif
