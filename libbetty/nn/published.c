/* nn/published.c: the parameters of bt_nn_transformer under their names in published checkpoints of language models.
 * One row per array; a * stands for the same text on both sides: a layer's number, "weight" or "bias". */
#include "nn/renaming.h"

#include <string.h>

enum how { SAME, TURNED, QUERIES, KEYS, VALUES, PARTS = 3 }; /* the last three: parts of one parameter */

typedef struct row {
    const char *theirs, *ours; /* ours "": the array is not used here */
    enum how how;
} row;

/* GPT-2 (Radford et al. 2019), as in OpenAI's weights and in transformers' GPT2Model and GPT2LMHeadModel. */
static const row gpt2[] = {
    {"wte.weight", "wte.weight", SAME},
    {"wpe.weight", "wpe.weight", SAME},
    {"h.*.ln_1.*", "layers.*.norm1.*", SAME},
    {"h.*.attn.c_attn.*", "layers.*.self_attn.in_proj_*", TURNED},
    {"h.*.attn.c_proj.*", "layers.*.self_attn.out_proj.*", TURNED},
    {"h.*.attn.bias", "", SAME}, /* which keys a query sees */
    {"h.*.attn.masked_bias", "", SAME},
    {"h.*.ln_2.*", "layers.*.norm2.*", SAME},
    {"h.*.mlp.c_fc.*", "layers.*.linear1.*", TURNED},
    {"h.*.mlp.c_proj.*", "layers.*.linear2.*", TURNED},
    {"ln_f.*", "norm.*", SAME},
    {"lm_head.weight", "", SAME}, /* the token table again */
    {NULL, NULL, SAME},
};

/* BERT (Devlin et al. 2019), as in transformers' BertModel and models built on it; older files say gamma and beta. */
static const row bert[] = {
    {"embeddings.word_embeddings.weight", "wte.weight", SAME},
    {"embeddings.position_embeddings.weight", "wpe.weight", SAME},
    {"embeddings.token_type_embeddings.weight", "token_type_embeddings.weight", SAME},
    {"embeddings.LayerNorm.weight", "embedding_norm.weight", SAME},
    {"embeddings.LayerNorm.bias", "embedding_norm.bias", SAME},
    {"embeddings.LayerNorm.gamma", "embedding_norm.weight", SAME},
    {"embeddings.LayerNorm.beta", "embedding_norm.bias", SAME},
    {"embeddings.position_ids", "", SAME}, /* 0, 1, 2, ... */
    {"encoder.layer.*.attention.self.query.*", "layers.*.self_attn.in_proj_*", QUERIES},
    {"encoder.layer.*.attention.self.key.*", "layers.*.self_attn.in_proj_*", KEYS},
    {"encoder.layer.*.attention.self.value.*", "layers.*.self_attn.in_proj_*", VALUES},
    {"encoder.layer.*.attention.output.dense.*", "layers.*.self_attn.out_proj.*", SAME},
    {"encoder.layer.*.attention.output.LayerNorm.weight", "layers.*.norm1.weight", SAME},
    {"encoder.layer.*.attention.output.LayerNorm.bias", "layers.*.norm1.bias", SAME},
    {"encoder.layer.*.attention.output.LayerNorm.gamma", "layers.*.norm1.weight", SAME},
    {"encoder.layer.*.attention.output.LayerNorm.beta", "layers.*.norm1.bias", SAME},
    {"encoder.layer.*.intermediate.dense.*", "layers.*.linear1.*", SAME},
    {"encoder.layer.*.output.dense.*", "layers.*.linear2.*", SAME},
    {"encoder.layer.*.output.LayerNorm.weight", "layers.*.norm2.weight", SAME},
    {"encoder.layer.*.output.LayerNorm.bias", "layers.*.norm2.bias", SAME},
    {"encoder.layer.*.output.LayerNorm.gamma", "layers.*.norm2.weight", SAME},
    {"encoder.layer.*.output.LayerNorm.beta", "layers.*.norm2.bias", SAME},
    {"pooler.*", "", SAME}, /* heads of the pretraining tasks */
    {"cls.*", "", SAME},
    {NULL, NULL, SAME},
};

typedef struct table {
    const char *prefix; /* of names, if the file has the model inside another */
    const row *rows;
} table;

static const row none[] = {{NULL, NULL, SAME}};
static const table tables[] = {
    [BT_LAYOUT_PYTORCH] = {"", none},
    [BT_LAYOUT_PLAIN] = {"", none},
    [BT_LAYOUT_GPT2] = {"transformer.", gpt2},
    [BT_LAYOUT_BERT] = {"bert.", bert},
};

static const table *table_of(bt_layout layout)
{
    return &tables[(unsigned)layout < BT_COUNT_OF(tables) ? layout : BT_LAYOUT_PYTORCH];
}

bool bt_published(bt_layout layout) { return table_of(layout)->rows != none; }

static int part_of(const row *at) { return at->how < QUERIES ? 0 : (int)at->how - QUERIES; }

/* Fills the stars of `to` as `from` matches the text; false: it does not match. */
static bool translated(const char *from, const char *to, const char *text, char result[BT_MOST_NAME])
{
    bt_star stars[BT_MOST_STARS];
    int count;
    return bt_match(from, strlen(from), text, stars, BT_MOST_STARS, &count) &&
           bt_substitute(to, strlen(to), stars, count, result);
}

bt_status bt_published_destination(bt_layout layout, const char *name, bt_destination *place)
{
    const table *t = table_of(layout);
    const row *at = t->rows;
    const size_t prefix = strlen(t->prefix), length = strlen(name);
    const char *inner = strncmp(name, t->prefix, prefix) == 0 ? name + prefix : name;
    *place = (bt_destination){.parts = 1};
    if (length >= BT_MOST_NAME)
        return bt_fail(BT_ERROR_FILE, "the name \"%.40s...\" is too long", name);
    while (at->theirs && !translated(at->theirs, at->ours, inner, place->name))
        at++;
    if (!at->theirs) {
        memcpy(place->name, name, length + 1);
        return BT_OK;
    }
    place->turned = at->how == TURNED;
    place->part = part_of(at);
    place->parts = at->how < QUERIES ? 1 : PARTS;
    return BT_OK;
}

bool bt_published_name(bt_layout layout, const char *ours, int part, char to[BT_MOST_NAME])
{
    for (const row *at = table_of(layout)->rows; at->theirs; at++)
        if (part_of(at) == part && translated(at->ours, at->theirs, ours, to))
            return true;
    return false;
}
