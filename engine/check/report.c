/* engine/check/report.c: the result of a check, as JSON and as text.
 *
 * If a part that must be exact is wrong, the hypergradient is wrong, however close it comes. Otherwise a difference
 * is an approximation: x does not solve its equation, or the lower problem is not solved. */
#include "engine/check/check.h"

#include <math.h>
#include <string.h>

/* ---- the names of suspects ---- */

/* The module nearest to the origin of a value, "classifier.layer2"; if there is none, the op that made it. */
static void add_place(const bt_tensor *value, bt_text *name)
{
    const bt_node *node = value->node;
    for (const bt_node *at = node; at; at = at->inputs && at->in[0] ? at->in[0]->node : NULL)
        if (*at->tag.path) {
            bt_text_add(name, "%s.%s", at->tag.owner, at->tag.path);
            return;
        }
    bt_text_add(name, "%s", node->op->name);
}

/* "a, b", without repetitions. */
static void add_name(bt_text *list, const char *name)
{
    const char *known = list->size ? strstr(bt_text_get(list), name) : NULL;
    size_t length = strlen(name);
    while (known && known[length] && known[length] != ',')
        known = strstr(known + 1, name);
    if (!known)
        bt_text_add(list, list->size ? ", %s" : "%s", name);
}

enum { OWN_RULE = BT_OP_OWN_VJP | BT_OP_OWN_JVP };

/* Finds where a callback detaches values, and its ops whose derivative is a user's rule. */
static void suspects(const bt_graph *graph, bt_text *detached, bt_text *rules)
{
    for (int64_t i = 0; graph && i < graph->node_count; i++) {
        const bt_node *node = graph->nodes[i];
        bt_text place = {0}, rule = {0};
        if (bt_node_any(node, BT_OP_DETACH)) {
            add_place(bt_op_is_composite(node->op) ? node->out : node->in[0], &place);
            add_name(detached, bt_text_get(&place));
        }
        bool own = bt_op_flags(node->op) & OWN_RULE;
        bt_text_add(&rule, own ? "%s" : "an op within the body of %s", node->op->name);
        if (bt_node_any(node, OWN_RULE))
            add_name(rules, bt_text_get(&rule));
        bt_text_free(&place);
        bt_text_free(&rule);
    }
}

/* "; model's loss detaches values of layer0"; false: it detaches nothing. */
static bool say_detached(const bt_problem *problem, int kind, bt_text *rules, bt_text *text)
{
    bt_text detached = {0};
    suspects(bt_traced_graph(problem, kind), &detached, rules);
    bool any = detached.size > 0;
    if (any && kind == BT_PURE_UPDATE) {
        const bt_problem_def *def = problem->def;
        const char *const names[] = {def->schedule ? "schedule" : NULL, def->grad_callback ? "grad_callback" : NULL,
                                     def->param_callback ? "param_callback" : NULL};
        bt_text callbacks = {0};
        for (int i = 0; i < BT_COUNT_OF(names); i++)
            if (names[i])
                bt_text_add(&callbacks, callbacks.size ? ", %s" : "%s", names[i]);
        bt_text_add(text, "; %s's update (%s) detaches values", problem->name,
                    callbacks.size ? bt_text_get(&callbacks) : problem->optimizer->kind.def->name);
        bt_text_free(&callbacks);
    } else if (any) {
        bt_text_add(text, "; %s's %s detaches values of %s", problem->name,
                    kind == BT_PURE_STEP ? "loss" : bt_pure_name(problem, kind), bt_text_get(&detached));
    }
    bt_text_free(&detached);
    return any;
}

static void say_rules(const bt_text *rules, bt_text *text)
{
    if (rules->size)
        bt_text_add(text, "; %s has a derivative rule of its own, which you should check", bt_text_get(rules));
}

static void say_suspects(const bt_part *part, const bt_problem *problem, bt_text *text)
{
    bt_text rules = {0};
    bool condition = part->kind != BT_PART_UPPER && problem->def->condition && !problem->settings->method->unrolls;
    bool detached = say_detached(problem, condition ? BT_PURE_CONDITION : BT_PURE_STEP, &rules, text);
    if (detached)
        bt_text_add(text, part->kind == BT_PART_UPPER ? ", so their influence is missing"
                                                      : ": detach = field differentiates the lower gradient as it is");
    say_rules(&rules, text);
    if (!detached && !rules.size)
        bt_text_add(text, "; that loss has no detached value and no user-defined derivative rule: please report this");
    bt_text_free(&rules);
}

/* Looks at everything that a step, or the start of an inner loop, consists of. */
static void say_step_suspects(const bt_trial *c, bt_text *text)
{
    static const int kinds[] = {BT_PURE_STEP, BT_PURE_UPDATE, BT_PURE_START};
    bt_text rules = {0};
    bool any = false;
    for (int q = 0; q < c->lower_count; q++)
        for (int k = 0; k < BT_COUNT_OF(kinds); k++)
            any |= c->lowers[q].problem->settings->detach != BT_DETACH_FIELD &&
                   say_detached(c->lowers[q].problem, kinds[k], &rules, text);
    if (any)
        bt_text_add(text, ": detach = field differentiates the steps as they are");
    say_rules(&rules, text);
    bt_text_free(&rules);
}

static void name_part(const bt_trial *c, const bt_part *part, bt_text *text)
{
    const char *moved = part->moved->name;
    if (part->kind == BT_PART_UPPER)
        bt_text_add(text, "the gradient of the loss of %s with respect to %s", c->upper->name, moved);
    else if (part->kind == BT_PART_CROSS)
        bt_text_add(text, "the product of %s with %s", c->lowers[part->solve].problem->name, moved);
    else
        bt_text_add(text, "the product of %s with itself (H x)", moved);
}

static const char *cause_name(bt_cause cause)
{
    static const char *const names[] = {"none", "noise", "kink", "rule"};
    return names[cause];
}

/* Advice against rounding, unless it is already followed. */
static const char *against_noise(const bt_trial *c)
{
    return c->upper->dtype == BT_F64 ? "fewer unroll_steps or another start may decide it"
                                     : "set precision = fp64 to decide it";
}

static const char *against_kink(const bt_trial *c)
{
    return c->upper->dtype == BT_F64 ? "" : "; precision = fp64 allows smaller steps";
}

/* If differences cannot decide, they say nothing against the derivative. */
static void undecided(const bt_trial *c, const bt_part *part, bt_text *text)
{
    const char *function = part->kind == BT_PART_UPPER ? "that loss" : "that lower gradient";
    bt_text_add(text, part->cause == BT_CAUSE_KINK ? "undecided: there is a kink: " : "undecided: rounding: ");
    name_part(c, part, text);
    bt_text_add(text, " does not match the differences");
    if (part->cause == BT_CAUSE_KINK)
        bt_text_add(text, ", but %s is not smooth here, as smaller steps show%s: a kink, as of relu, abs, min or max",
                    function, against_kink(c));
    else
        bt_text_add(text, ", but the deviation is smaller than the rounding error here: %s", against_noise(c));
}

/* ---- the verdict ---- */

static double cosine_of(double aa, double ab, double bb) { return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa == bb; }

static double ratio_of(double aa, double bb) { return bb > 0 ? sqrt(aa / bb) : aa > 0 ? INFINITY : 1; }

static bool close_to(const bt_trial *c, double cosine, double ratio)
{
    bool f64 = c->upper->dtype == BT_F64;
    return cosine > (f64 ? 0.9999 : 0.999) && fabs(ratio - 1) < (f64 ? 1e-3 : 1e-2);
}

bool bt_check_close(const bt_trial *c, bool reference)
{
    double aa = reference ? c->rr : c->mm, ad = reference ? c->rd : c->md;
    return close_to(c, cosine_of(aa, ad, c->dd), ratio_of(aa, c->dd));
}

/* Conditions that hold where the steps end but are missing from the equation. */
static void say_unseen(const bt_trial *c, bt_text *text)
{
    for (int q = 0; q < c->lower_count; q++) {
        const bt_lower *lower = &c->lowers[q];
        const char *level = lower->problem->name, *method = lower->problem->settings->method->name;
        if (!lower->acting && !lower->at_kink)
            continue;
        bt_text_add(text,
                    "%s%s: type = %s assumes that the gradient of its loss is 0 at its solution, but its steps end "
                    "where the gradient's length is %.3g: ",
                    text->size ? "; " : "DISAGREES: ", level, method, lower->gradient_length);
        if (lower->acting) {
            bt_text_add(text, "they also depend on ");
            bt_unseen_list(lower->acting, false, text);
            bt_text_add(text, ", which the method leaves out; %s, or use type = itd", bt_unseen_cure);
        } else {
            bt_text_add(text, "they jump back and forth over a kink of the loss, as of abs, relu, min or max, where it "
                              "has no gradient; move the kink from the loss to param_callback and condition "
                              "(bt_soft_threshold, bt_projected_condition), or use type = itd");
        }
    }
}

/* The remaining causes if every x solves its equation. */
static void say_unsolved(const bt_trial *c, bt_text *text)
{
    bt_text rules = {0};
    for (int q = 0; q < c->lower_count; q++)
        if (!c->lowers[q].unrolls && c->lowers[q].problem->settings->detach != BT_DETACH_FIELD &&
            say_detached(c->lowers[q].problem, BT_PURE_STEP, &rules, text))
            bt_text_add(text, ", whose change H does not include: try detach = field");
    bt_text_free(&rules);
    for (int q = 0; q < c->lower_count; q++)
        if (c->lowers[q].problem->def->condition && !c->lowers[q].unrolls)
            bt_text_add(text, "; at the end of the inner loop the length of %s's condition is %.3g, but it should be 0",
                        c->lowers[q].problem->name, c->lowers[q].gradient_length);
    for (int q = 0; q < c->lower_count; q++)
        if (c->lowers[q].problem->child_count && !c->lowers[q].unrolls)
            bt_text_add(text,
                        "; %s has lower levels of its own: H does not include what its gradient gets through them",
                        c->lowers[q].problem->name);
    bt_text_add(text, "; the lower levels are not solved at the end of the inner loop, though solving for x assumes "
                      "it: try more unroll_steps");
}

/* x does not solve its equation. */
static void say_unsolved_x(const bt_trial *c, int q, bt_text *text)
{
    const bt_lower *lower = &c->lowers[q];
    const char *level = lower->problem->name, *method = lower->problem->settings->method->name;
    if (!lower->solution)
        bt_text_add(text, "; %s is too large, or its H too close to singular, to compute a solution to compare %s with",
                    level, method);
    else if (!lower->iterates)
        bt_text_add(text,
                    "; %s, %s: H^-1 is replaced by something simpler: compared with a solution, cosine %.4f, length "
                    "%.4g",
                    level, method, lower->cosine, lower->ratio);
    else
        bt_text_add(text, "; %s, %s: after %lld iterations, compared with a solution, x has cosine %.4f, length %.4g",
                    level, method, (long long)bt_implicit_iterations(&c->upper->step->site.solves[q]), lower->cosine,
                    lower->ratio);
}

static void say_finite(const bt_trial *c, const bt_problem *lower, bt_text *text)
{
    bt_text_add(text, "; %s: product = finite", lower->name);
    if (!isnan(c->finite_error))
        bt_text_add(text, ", which changes the hypergradient by %.2g of the exact product's%s", c->finite_error,
                    c->finite_error > 1e-2 ? ": use product = jvp, or another darts_alpha" : "");
}

/* Levels whose solution is treated as a constant; false: there are none. */
static bool say_constant(const bt_trial *c, bt_text *text)
{
    bool any = false;
    for (int i = 0; i < c->upper->child_count; i++)
        if (bt_is_constant(c->upper->children[i])) {
            bt_text_add(text, "; %s: type = none, its solution counts as a constant", c->upper->children[i]->name);
            any = true;
        }
    return any;
}

/* What the method leaves out; if nothing, the remaining causes. */
static void say_approximation(const bt_trial *c, bt_text *text)
{
    int64_t before = text->size;
    for (int q = 0; q < c->lower_count; q++) {
        const bt_lower *lower = &c->lowers[q];
        if (bt_check_partial(lower->problem))
            bt_text_add(text, "; %s: hypergradients pass through meta_trainable = %s only", lower->problem->name,
                        lower->problem->settings->meta_trainable);
        if (lower->finite)
            say_finite(c, lower->problem, text);
        if (lower->unrolls)
            bt_solver_of(lower->problem)->leave_out(lower->problem, text);
        else if (!lower->solution || !close_to(c, lower->cosine, lower->ratio))
            say_unsolved_x(c, q, text);
    }
    if (!say_constant(c, text) && (c->have_reference ? !bt_check_close(c, true) : text->size == before))
        say_unsolved(c, text);
    if (c->cause == BT_CAUSE_KINK)
        bt_text_add(text, "; the retrained loss is not smooth here, as smaller steps show");
    if (c->cause == BT_CAUSE_NOISE)
        bt_text_add(text, "; rounding limits these differences: %s", against_noise(c));
}

/* If the method is exact, any difference is an error, unless differences cannot decide. */
static bt_verdict say_inexact(const bt_trial *c, bt_text *text)
{
    const char *method = c->lowers[0].problem->settings->method->name;
    if (c->cause == BT_CAUSE_KINK)
        bt_text_add(text,
                    "undecided: there is a kink: the retrained loss is not smooth here, as smaller steps show, so "
                    "differences cannot decide%s",
                    against_kink(c));
    else if (c->cause == BT_CAUSE_NOISE)
        bt_text_add(text, "undecided: rounding limits these differences: %s", against_noise(c));
    else
        bt_text_add(text, "DISAGREES: type = %s differentiates all steps that were made, and should be exact", method);
    if (c->cause != BT_CAUSE_KINK && c->cause != BT_CAUSE_NOISE)
        say_step_suspects(c, text);
    return c->cause == BT_CAUSE_KINK || c->cause == BT_CAUSE_NOISE ? BT_UNDECIDED : BT_DISAGREES;
}

static bool all_finite(const bt_trial *c) { return isfinite(c->mm) && isfinite(c->dd); }

/* If there is nothing to compare. */
static void say_void(const bt_trial *c, bt_text *text)
{
    if (c->nonfinite)
        bt_text_add(text, "DISAGREES: the loss of %s is not finite, whatever its gradient is", c->nonfinite->name);
    else if (!c->repeats)
        bt_text_add(text, "DISAGREES: trained again from the same state, the levels below reach a different loss: a "
                          "callback keeps something that bt_state does not know of");
    else if (!all_finite(c))
        bt_text_add(text, "DISAGREES: the hypergradient, or a loss next to it, is not finite");
}

/* The wrong parts, or those that differences cannot decide. */
static void say_parts(const bt_trial *c, bool wrong, bt_text *text)
{
    for (int i = 0; i < c->part_count; i++) {
        const bt_part *part = &c->parts[i];
        if (part->cause == BT_CAUSE_NONE || (part->cause == BT_CAUSE_RULE) != wrong)
            continue;
        if (text->size)
            bt_text_add(text, "\nand ");
        if (!wrong) {
            undecided(c, part, text);
            continue;
        }
        bt_text_add(text, "DISAGREES: ");
        name_part(c, part, text);
        bt_text_add(text, " is not the derivative that differences show");
        say_suspects(part, part->kind == BT_PART_UPPER ? c->upper : c->lowers[part->solve].problem, text);
    }
}

static bt_verdict verdict(const bt_trial *c, bt_text *text)
{
    say_void(c, text);
    if (!text->size)
        say_parts(c, true, text);
    if (text->size)
        return BT_DISAGREES;
    say_parts(c, false, text);
    if (text->size)
        return BT_UNDECIDED;
    if (bt_check_close(c, false) && !(c->finite_error > 1e-2)) {
        bt_text_add(text, "agrees, in direction and in length");
        return BT_AGREES;
    }
    if (c->exact)
        return say_inexact(c, text);
    say_unseen(c, text);
    if (text->size)
        return BT_DISAGREES;
    bt_text_add(text, "approximation: the parts that must be exact agree");
    say_approximation(c, text);
    return BT_APPROXIMATION;
}

/* ---- as JSON ---- */

static json_t *lowers_json(const bt_trial *c)
{
    json_t *list = json_array();
    for (int q = 0; q < c->lower_count; q++) {
        const bt_lower *lower = &c->lowers[q];
        json_t *row = bt_json_with(json_object(), "level", json_string(lower->problem->name));
        row = bt_json_with(row, "method", json_string(lower->problem->settings->method->name));
        if (lower->solution) {
            row = bt_json_with(row, "cosine", bt_json_number(lower->cosine));
            row = bt_json_with(row, "ratio", bt_json_number(lower->ratio));
        }
        row = bt_json_with(row, "gradient", bt_json_number(lower->gradient_length));
        list = bt_json_append(list, row);
    }
    return list;
}

static json_t *parts_json(const bt_trial *c)
{
    json_t *list = json_array();
    for (int i = 0; i < c->part_count; i++) {
        bt_text name = {0};
        name_part(c, &c->parts[i], &name);
        json_t *row = bt_json_with(json_object(), "part", name.failed ? NULL : json_string(bt_text_get(&name)));
        row = bt_json_with(row, "error", bt_json_number(c->parts[i].error));
        list = bt_json_append(list, bt_json_with(row, "cause", json_string(cause_name(c->parts[i].cause))));
        bt_text_free(&name);
    }
    return list;
}

static json_t *pair_json(double cosine, double ratio)
{
    return bt_json_with(bt_json_with(json_object(), "cosine", bt_json_number(cosine)), "ratio", bt_json_number(ratio));
}

bt_status bt_check_judge(bt_trial *c)
{
    bt_text text = {0};
    c->verdict = verdict(c, &text);
    json_t *result = bt_json_with(json_object(), "level", json_string(c->upper->name));
    result = bt_json_with(result, "samples", c->rows);
    c->rows = NULL;
    result = bt_json_with(result, "cosine", bt_json_number(cosine_of(c->mm, c->md, c->dd)));
    result = bt_json_with(result, "ratio", bt_json_number(ratio_of(c->mm, c->dd)));
    if (c->have_reference)
        result = bt_json_with(result, "solved", pair_json(cosine_of(c->rr, c->rd, c->dd), ratio_of(c->rr, c->dd)));
    result = bt_json_with(result, "lowers", lowers_json(c));
    result = bt_json_with(result, "parts", parts_json(c));
    result = bt_json_with(result, "verdict", text.failed ? NULL : json_string(bt_text_get(&text)));
    bt_text_free(&text);
    c->result = result;
    return result ? BT_OK : bt_fail(BT_ERROR_MEMORY, "out of memory for the check");
}

/* ---- as text ---- */

static void print_samples(const json_t *result, FILE *file)
{
    size_t i;
    const json_t *row, *samples = json_object_get(result, "samples"), *solved = json_object_get(result, "solved");
    fprintf(file, "%8s %16s %16s", "sample", "method", "difference");
    fprintf(file, solved ? " %16s\n" : "\n", "solved");
    json_array_foreach(samples, i, row)
    {
        fprintf(file, "%8lld %16.8g %16.8g", (long long)json_integer_value(json_object_get(row, "sample")),
                bt_json_read_number(row, "method"), bt_json_read_number(row, "difference"));
        if (solved)
            fprintf(file, " %16.8g", bt_json_read_number(row, "reference"));
        fprintf(file, "\n");
    }
    fprintf(file, "direction: cosine %.6f; length: method / difference = %.6g\n", bt_json_read_number(result, "cosine"),
            bt_json_read_number(result, "ratio"));
    if (solved)
        fprintf(file, "with every x solved exactly: cosine %.6f; length %.6g\n", bt_json_read_number(solved, "cosine"),
                bt_json_read_number(solved, "ratio"));
}

void bt_check_print(const bt_trial *c, FILE *file)
{
    size_t i;
    const json_t *row;
    fprintf(file, "%s: hypergradient against differences of its loss after the inner loop\n", c->upper->name);
    print_samples(c->result, file);
    json_array_foreach(json_object_get(c->result, "lowers"), i, row)
    {
        fprintf(file, "%s, %s: ", bt_json_read_text(row, "level"), bt_json_read_text(row, "method"));
        if (json_object_get(row, "cosine"))
            fprintf(file, "x against the solution of H x = a: cosine %.6f; length %.6g; ",
                    bt_json_read_number(row, "cosine"), bt_json_read_number(row, "ratio"));
        fprintf(file, "the lower gradient's length is %.3g\n", bt_json_read_number(row, "gradient"));
    }
    json_array_foreach(json_object_get(c->result, "parts"), i, row)
        fprintf(file, "%s: relative error %.3g\n", bt_json_read_text(row, "part"), bt_json_read_number(row, "error"));
    fprintf(file, "%s\n", bt_json_read_text(c->result, "verdict"));
}
