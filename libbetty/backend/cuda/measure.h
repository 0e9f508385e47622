/* backend/cuda/measure.h: ops along lines. Something is measured over each line, and gives the result for the line or
 * for each of its elements. If lines are few and long, a first kernel measures their pieces and a second combines them.
 * A record OP defines the op:
 *
 *   INPUTS                  number of operands with one element per element of a line
 *   EACH                    number of operands, the first ones, that give each element of outputs[0]; 0: no such output
 *   number                  the type it computes in
 *   room, state, told       shared by the lanes; measured over a piece; passed to the elements
 *   none(), join(a, b)      the state of no pieces; of two
 *   measure(a, me, room)    the state of the piece, on each of its lanes
 *   tell(a, me, state)      computes `told` from the state of the whole line
 *   give(told, i, x)        if EACH: element i, from the operands' elements x
 *   leave(a, line, told)    stores the results of the line itself */
#ifndef BT_CUDA_MEASURE_H
#define BT_CUDA_MEASURE_H

#include "backend/cuda/tile.h"
#include "backend/cuda/walk.h"

struct bt_measure_operand {
    const char *data;
    bt_dtype dtype;
    bt_walk lines, along; /* where a line begins; where its elements are from there */
};

template <class OP> struct bt_measure {
    bt_tile tile;
    bt_measure_operand in[OP::INPUTS];
    char *outputs[3];
    bt_dtype given[3]; /* the dtypes of `outputs` */
    int64_t step;      /* of outputs[0], if EACH: from one element of a line to the next */
    double eps;
    bt_cuda_record *record; /* and the call's site in it */
    int64_t site;
    typename OP::state *parts; /* [part, line]; NULL: each line is within one block */
    int64_t part_count;
};

template <class OP> struct bt_measure_thread {
    bt_tile_work own;
    int64_t start[OP::INPUTS]; /* the start of its line */
};

/* ---- on the device ---- */

template <class OP> static inline __device__ bt_measure_thread<OP> bt_measure_me(const bt_measure<OP> &a)
{
    bt_measure_thread<OP> me;
    me.own = bt_tile_own(a.tile);
    BT_CUDA_UNROLL
    for (int n = 0; n < OP::INPUTS; n++)
        me.start[n] = bt_walk_at(a.in[n].lines, me.own.line);
    return me;
}

/* Calls visit(i, x) for the thread's elements i; x has element i of the first N operands. */
template <int N, class OP, class F>
static inline __device__ void bt_measure_each(const bt_measure<OP> &a, const bt_measure_thread<OP> &me, F visit)
{
    const int64_t lanes = a.tile.lanes, to = me.own.to;
    for (int64_t i = me.own.first; i < to; i += BT_TILE_AT_ONCE * lanes) {
        typename OP::number x[N][BT_TILE_AT_ONCE];
        BT_CUDA_UNROLL
        for (int n = 0; n < N; n++) {
            int64_t at[BT_TILE_AT_ONCE];
            BT_CUDA_UNROLL
            for (int k = 0; k < BT_TILE_AT_ONCE; k++)
                at[k] = me.start[n] + bt_walk_at(a.in[n].along, i + k * lanes < to ? i + k * lanes : i);
            bt_load_each<typename OP::number, BT_TILE_AT_ONCE>(a.in[n].dtype, a.in[n].data, at, x[n]);
        }
        BT_CUDA_UNROLL
        for (int k = 0; k < BT_TILE_AT_ONCE; k++) {
            typename OP::number one[N];
            BT_CUDA_UNROLL
            for (int n = 0; n < N; n++)
                one[n] = x[n][k];
            if (i + k * lanes < to)
                visit(i + k * lanes, one);
        }
    }
}

/* The value of operand n, which has one element per line. */
template <class OP>
static inline __device__ typename OP::number bt_measure_line(const bt_measure<OP> &a, const bt_measure_thread<OP> &me,
                                                             int n)
{
    return bt_load<typename OP::number>(a.in[n].dtype, a.in[n].data, me.start[n]);
}

template <class OP>
static inline __device__ void bt_measure_finish(const bt_measure<OP> &a, const bt_measure_thread<OP> &me,
                                                const typename OP::state &all)
{
    const typename OP::told told = OP::tell(a, me, all);
    if (me.own.real && me.own.first == 0)
        OP::leave(a, me.own.line, told);
    if constexpr (OP::EACH > 0) {
        const int64_t line = me.own.line, first = line / a.step * a.step * a.tile.n + line % a.step;
        bt_measure_each<OP::EACH>(a, me, [&](int64_t i, const typename OP::number *x) {
            if (me.own.real)
                bt_store(a.given[0], a.outputs[0], first + i * a.step, OP::give(told, i, x));
        });
    }
}

template <class OP> static __global__ void bt_measure_pieces(const bt_measure<OP> a)
{
    BT_SHARED(typename OP::room, room, BT_TILE_THREADS);
    const bt_measure_thread<OP> me = bt_measure_me<OP>(a);
    const typename OP::state piece = OP::measure(a, me, room);
    if (!a.parts)
        bt_measure_finish<OP>(a, me, piece);
    else if (me.own.real && bt_tile_lane(a.tile) == 0)
        a.parts[me.own.part * a.tile.lines + me.own.line] = piece;
}

template <class OP> static __global__ void bt_measure_together(const bt_measure<OP> a)
{
    BT_SHARED(typename OP::state, room, BT_TILE_THREADS);
    const bt_measure_thread<OP> me = bt_measure_me<OP>(a);
    typename OP::state mine = OP::none();
    for (int64_t part = bt_tile_lane(a.tile); part < a.part_count; part += a.tile.lanes)
        mine = OP::join(mine, a.parts[part * a.tile.lines + me.own.line]);
    bt_measure_finish<OP>(a, me, bt_tile_join<OP>(a.tile, room, mine));
}

/* ---- on the host: the call has the operands and outputs of the record's op ---- */

template <class OP> static inline size_t bt_measure_scratch(const bt_measure<OP> &a)
{
    return a.tile.parts > 1 ? (size_t)(a.tile.parts * a.tile.lines) * sizeof(typename OP::state) : 0;
}

template <class OP> static inline bt_status bt_measure_launch(const bt_call *call, bt_measure<OP> a)
{
    const bt_tile tile = a.tile;
    const unsigned threads = bt_tile_threads();
    for (int o = 0; o < call->outputs; o++) {
        a.outputs[o] = call->out[o].data;
        a.given[o] = call->out[o].dtype;
    }
    a.parts = tile.parts > 1 ? (typename OP::state *)call->scratch : nullptr;
    a.part_count = tile.parts;
    BT_TRY(bt_cuda_launch<bt_measure<OP>>(call, bt_measure_pieces<OP>, bt_tile_blocks(tile), threads, a));
    if (!a.parts)
        return BT_OK;
    if (OP::EACH == 0)
        a.tile = bt_tile_whole(tile.lines, tile.parts, true);
    return bt_cuda_launch<bt_measure<OP>>(call, bt_measure_together<OP>, bt_tile_blocks(a.tile), threads, a);
}

#endif
