/* kernel_text.c - expanding kernel templates. See kernel_text.h for the directives.
 *
 * One pass over the text with a small stack of open blocks; a loop jumps back to its start, so
 * nothing is copied but output. Expressions are parsed where they stand.
 */
#include "kernel_text.h"

#define MAX_DEPTH 12
#define MAX_OUTPUT (1u << 20) /* a runaway loop of a template ends here */

void wf_slots_set(wf_slots *s, const char *name, int64_t value)
{
    if (s->n < WF_SLOTS_MAX) {
        s->slot[s->n].name = name;
        s->slot[s->n].text = NULL;
        s->slot[s->n++].value = value;
    }
}

void wf_slots_set_text(wf_slots *s, const char *name, const char *text)
{
    if (s->n < WF_SLOTS_MAX) {
        s->slot[s->n].name = name;
        s->slot[s->n].value = 0;
        s->slot[s->n++].text = text ? text : "";
    }
}

weft_status wf_template_find(const char *name, const char **text)
{
    for (const wf_wgsl_file *f = wf_wgsl_files; f->name; f++)
        if (strcmp(f->name, name) == 0) {
            *text = f->text;
            return WEFT_OK;
        }
    return wf_fail(WEFT_E_INTERNAL, "kernels: no template \"%s\"", name);
}

typedef enum { BLOCK_FOR, BLOCK_IF } block_kind;

typedef struct block {
    block_kind kind;
    const char *body;     /* FOR: first character after the directive */
    const char *var;      /* FOR: loop variable */
    int var_len;
    int64_t now, end;
    bool active;          /* its text is written */
    bool taken;           /* IF: a branch was written */
} block;

typedef struct expander {
    const char *name;     /* of the template, for messages */
    const wf_slots *slots;
    block stack[MAX_DEPTH];
    int depth;
    const char *at;       /* expression cursor and its end */
    const char *end;
    bool bad;
} expander;

static bool is_word(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static void skip_space(expander *x)
{
    while (x->at < x->end && (*x->at == ' ' || *x->at == '\t'))
        x->at++;
}

static bool same(const char *name, const char *word, int n)
{
    return strncmp(name, word, (size_t)n) == 0 && name[n] == 0;
}

static bool find_number(const expander *x, const char *word, int n, int64_t *value)
{
    for (int i = x->depth - 1; i >= 0; i--)
        if (x->stack[i].kind == BLOCK_FOR && x->stack[i].var_len == n && memcmp(x->stack[i].var, word, (size_t)n) == 0) {
            *value = x->stack[i].now;
            return true;
        }
    for (int i = 0; i < x->slots->n; i++)
        if (!x->slots->slot[i].text && same(x->slots->slot[i].name, word, n)) {
            *value = x->slots->slot[i].value;
            return true;
        }
    return false;
}

/* ---- expressions, by precedence ---- */
typedef struct operator {
    const char *text;
    int level; /* binds tighter when higher */
} operator;
/* Longer spellings first. */
static const operator operators[] = {{"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<=", 3}, {">=", 3},
                                     {"<", 3},  {">", 3},  {"+", 4},  {"-", 4},  {"*", 5},  {"/", 5}, {"%", 5}};

static int64_t apply(expander *x, const char *op, int64_t a, int64_t b)
{
    switch (op[0]) {
    case '|': return a || b;
    case '&': return a && b;
    case '=': return a == b;
    case '!': return a != b;
    case '<': return op[1] ? a <= b : a < b;
    case '>': return op[1] ? a >= b : a > b;
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    default:
        if (b == 0) {
            x->bad = true;
            return 0;
        }
        return op[0] == '/' ? a / b : a % b;
    }
}

static int64_t expression(expander *x, int level, int nesting);

static int64_t operand(expander *x, int nesting)
{
    skip_space(x);
    if (x->at >= x->end || nesting > 20) {
        x->bad = true;
        return 0;
    }
    if (*x->at == '!' || *x->at == '-') {
        char c = *x->at++;
        int64_t v = operand(x, nesting + 1);
        return c == '!' ? !v : -v;
    }
    if (*x->at == '(') {
        x->at++;
        int64_t v = expression(x, 1, nesting + 1);
        skip_space(x);
        if (x->at >= x->end || *x->at != ')')
            x->bad = true;
        else
            x->at++;
        return v;
    }
    const char *word = x->at;
    while (x->at < x->end && is_word(*x->at))
        x->at++;
    int n = (int)(x->at - word);
    int64_t v = 0;
    if (n > 0 && word[0] >= '0' && word[0] <= '9') {
        for (int i = 0; i < n && i < 18; i++)
            v = v * 10 + (word[i] - '0');
    } else if (n == 0 || !find_number(x, word, n, &v)) {
        x->bad = true;
        if (x->at < x->end)
            x->at++;
    }
    return v;
}

static const operator *next_operator(expander *x, int level)
{
    skip_space(x);
    for (size_t i = 0; i < WF_COUNT(operators); i++) {
        size_t n = strlen(operators[i].text);
        if ((size_t)(x->end - x->at) >= n && memcmp(x->at, operators[i].text, n) == 0)
            return operators[i].level >= level ? &operators[i] : NULL;
    }
    return NULL;
}

static int64_t expression(expander *x, int level, int nesting)
{
    int64_t v = operand(x, nesting);
    for (const operator *op; !x->bad && (op = next_operator(x, level));) {
        x->at += strlen(op->text);
        v = apply(x, op->text, v, expression(x, op->level + 1, nesting + 1));
    }
    return v;
}

static int64_t evaluate(expander *x, const char *from, const char *to)
{
    x->at = from;
    x->end = to;
    int64_t v = expression(x, 1, 0);
    skip_space(x);
    if (x->at < x->end && *x->at == '?') {
        x->at++;
        int64_t yes = expression(x, 1, 0);
        skip_space(x);
        if (x->at < x->end && *x->at == ':')
            x->at++;
        else
            x->bad = true;
        int64_t no = expression(x, 1, 0);
        skip_space(x);
        v = v ? yes : no;
    }
    if (x->at != x->end)
        x->bad = true;
    return v;
}

/* ---- directives ---- */
static bool active(const expander *x)
{
    return x->depth == 0 || x->stack[x->depth - 1].active;
}

static bool starts(const char *p, const char *end, const char *prefix)
{
    size_t n = strlen(prefix);
    return (size_t)(end - p) >= n && memcmp(p, prefix, n) == 0;
}

static block *push(expander *x, block_kind kind)
{
    if (x->depth == MAX_DEPTH) {
        x->bad = true;
        return NULL;
    }
    bool was_active = active(x);
    block *b = &x->stack[x->depth++];
    *b = (block){.kind = kind, .active = was_active};
    return b;
}

static void open_for(expander *x, const char *p, const char *end, const char *body)
{
    while (p < end && *p == ' ')
        p++;
    const char *var = p;
    while (p < end && is_word(*p))
        p++;
    int var_len = (int)(p - var);
    const char *dots = p;
    while (dots + 1 < end && !(dots[0] == '.' && dots[1] == '.'))
        dots++;
    if (var_len == 0 || p >= end || *p != '=' || dots + 1 >= end) {
        x->bad = true;
        return;
    }
    bool run = active(x);
    int64_t first = run ? evaluate(x, p + 1, dots) : 0;
    int64_t last = run ? evaluate(x, dots + 2, end) : 0;
    block *b = push(x, BLOCK_FOR);
    if (b) {
        b->body = body;
        b->var = var;
        b->var_len = var_len;
        b->now = first;
        b->end = last;
        b->active = run && first < last;
    }
}

/* Handles a block directive; gives where to go on, or NULL when it is none. */
static const char *block_directive(expander *x, const char *p, const char *end, const char *after)
{
    if (starts(p, end, "#for ")) {
        open_for(x, p + 5, end, after);
        return after;
    }
    if (starts(p, end, "#if ")) {
        bool run = active(x);
        bool yes = run && evaluate(x, p + 4, end) != 0;
        block *b = push(x, BLOCK_IF);
        if (b) {
            b->active = yes;
            b->taken = yes || !run;
        }
        return after;
    }
    block *top = x->depth ? &x->stack[x->depth - 1] : NULL;
    if (starts(p, end, "#else")) {
        if (!top || top->kind != BLOCK_IF)
            x->bad = true;
        else {
            top->active = !top->taken;
            top->taken = true;
        }
        return after;
    }
    if (starts(p, end, "/for") || starts(p, end, "/if")) {
        bool is_for = p[1] == 'f';
        if (!top || (top->kind == BLOCK_FOR) != is_for) {
            x->bad = true;
            return after;
        }
        if (is_for && top->active && ++top->now < top->end)
            return top->body;
        x->depth--;
        return after;
    }
    return NULL;
}

static void value_directive(expander *x, const char *p, const char *end, wf_str *out)
{
    if (!active(x))
        return;
    if (*p == '=') {
        wf_str_addf(out, "%lld", (long long)evaluate(x, p + 1, end));
        return;
    }
    int n = (int)(end - p);
    int64_t v;
    if (find_number(x, p, n, &v)) {
        wf_str_addf(out, "%lld", (long long)v);
        return;
    }
    for (int i = 0; i < x->slots->n; i++)
        if (x->slots->slot[i].text && same(x->slots->slot[i].name, p, n)) {
            wf_str_add(out, x->slots->slot[i].text);
            return;
        }
    x->bad = true;
}

/* A block directive alone on its line takes the line's end and its indentation with it. */
static const char *swallow_line(const char *text, const char *open, const char *after)
{
    const char *from = open;
    while (from > text && (from[-1] == ' ' || from[-1] == '\t'))
        from--;
    return (from == text || from[-1] == '\n') && *after == '\n' ? after + 1 : after;
}

weft_status wf_template_expand(const char *name, const char *text, const wf_slots *slots, wf_str *out)
{
    expander x = {.name = name, .slots = slots};
    const char *p = text;
    while (*p) {
        const char *open = strstr(p, "{{");
        const char *stop = open ? open : p + strlen(p);
        const char *close = open ? strstr(open, "}}") : NULL;
        if (open && !close)
            return wf_fail(WEFT_E_INTERNAL, "kernels: template %s: directive is not closed: %.40s", name, open);
        const char *inner = open ? open + 2 : NULL;
        bool is_block = open && (*inner == '#' || *inner == '/');
        const char *after = open ? close + 2 : stop;
        if (is_block) {
            after = swallow_line(text, open, after);
            if (after > close + 2)
                while (stop > p && (stop[-1] == ' ' || stop[-1] == '\t'))
                    stop--;
        }
        if (active(&x))
            wf_str_addn(out, p, (size_t)(stop - p));
        if (!open)
            break;
        p = after;
        if (is_block)
            p = block_directive(&x, inner, close, after);
        else
            value_directive(&x, inner, close, out);
        if (!p || x.bad)
            return wf_fail(WEFT_E_INTERNAL, "kernels: template %s: cannot expand {{%.*s}}", name, (int)(close - inner), inner);
        if (out->len > MAX_OUTPUT)
            return wf_fail(WEFT_E_INTERNAL, "kernels: template %s: expansion is longer than %u bytes", name, MAX_OUTPUT);
    }
    if (x.depth)
        return wf_fail(WEFT_E_INTERNAL, "kernels: template %s: a block is not closed", name);
    return out->oom ? wf_fail_oom(out->len) : WEFT_OK;
}
