// A recurrent network over sequences whose inputs are multiplied already: RNN, GRU or LSTM, with r packed for products.
//
// A ticket is a run of sequences of one direction. It walks their tokens: the products of all gates for all its sequences,
// then the cells, sixteen units at a time. States, cells and products lie in the worker's scratch.
//
// ahead, weights, bias, lengths, hidden, first, peephole    ahead [tokens, batch, directions, gates, H];  r [directions,
//                             groups, H, 64], zeros behind the last row;  bias of r [directions, gates, H];  lengths [batch]
//                             (int);  first states and cells [directions, batch, H];  peephole [directions, 3, H]; all
//                             but the first two may be CLGRAPH_NULL
// every, last, cells          [tokens, directions, batch, H], zeros beyond a sequence's length;  [directions, batch, H]
// tokens, batch, directions, units   units: H
// cell                        0 RNN, 1 GRU, 2 LSTM
// backward                    1: the first direction is from the end;  linear: a GRU resets behind the product;  coupled
// groups                      of 64 rows of r, over all gates
// ticket_lines, runs          sequences of a ticket, tickets of one direction
// nb, widest, first_id        columns / 16 and rows of the widest instance; id of the one-row instance, neighbours follow
// rounded                     1: r multiplies the states of the ticket's sequences rounded to 8 bits; an LSTM of one ticket
// limit                       bound on what activations read but of the cell; 0: none
// Post-operations             the activations of each direction in turn; they are not applied to the results.
//
// Error: as in micro_matmul.cl for each gate, and the activations', carried on by the network from token to token; a step more
// where a state that is rounded is that close to the middle of two.
#include "post_tile.clh"

static float16 load_part(__global const float* p, const int lanes) {
  return lanes == 16 ? LOAD_LOOSE(p) : load_lanes(p, 1, lanes);
}

// The token that a step of a sequence is at: the last one first in a direction from the end.
static int token_at(const int step, const int length, const int backward) {
  return backward && step < length ? length - 1 - step : step;
}

NOINLINE static float16 activated(__global const post_step* s, const float limit, const float16 v) {
  const float16 inside = limit > 0 ? (v != v ? v : clamp(v, -limit, limit)) : v;
  return post_apply(s->code, inside, inside, s->a, s->b);
}

// sums[i][64 g ..] of groups `from` to `to` - 1: the rows of `state`, `pitch` floats apart, times those of r.
static void multiply_states(__global const recurrent_steps_products_desc* d, __global const float* state, const int pitch,
                            __global const float* r, __global float* sums, const int lines, const int from, const int to) {
  const int wide = d->groups * 64;
  for (int g = from; g < to; g++)
    for (int i = 0; i < lines;) {
      const int left = lines - i, pieces = (left + d->widest - 1) / d->widest, count = (left + pieces - 1) / pieces;
      for (int j = 0; j < 64; j += d->nb * 16) {
        __global const float* b = r + (long)g * d->units * 64 + j;
        micro_matmul(d->first_id + count - 1, state + i * pitch, pitch, 1, b, 64, sums + (long)i * wide + g * 64 + j, wide,
                     d->nb * 16, d->units, 0, b, 0);
      }
      i += count;
    }
}

// Writes to `to` the states of `lines` sequences rounded to 256 steps from the least to the greatest of them and 0, as
// DynamicQuantizeLinear does: those that the token before has made, also where it was a sequence's last.
static void round_states(__global const float* states, __global float* to, __global const int* lengths, const int step,
                         const int lines, const int size) {
  const int pitch = (size + 15) / 16 * 16;
  float16 least = 0.0f, most = 0.0f;
  for (int i = 0; i < lines; i++)
    for (int j = 0; j < size && (!lengths || step <= lengths[i]); j += 16) {
      const float16 v = load_part(states + i * pitch + j, min(16, size - j));
      least = post_min(v, least), most = post_max(v, most);
    }
  float low = 0.0f, high = 0.0f;
  for (int l = 0; l < 16; l++) low = fmin(low, least[l]), high = fmax(high, most[l]);
  const float width = (high - low) / 255.0f, scale = width == 0.0f ? 1.0f : width;
  const float zero = rint(clamp(-low / scale, 0.0f, 255.0f));
  for (int i = 0; i < lines * pitch; i += 16) {
    const float16 q = post_round(LOAD16(states + i) / scale) + zero;
    STORE16(to + i, (post_min(post_max(q, 0.0f), 255.0f) - zero) * scale);
  }
}

// The cells of a sequence of an LSTM as most are: sigmoid, tanh, tanh, and nothing else. Those in line take two thirds of the
// time that calls of them take.
static void usual_cells(__global const float* x, __global const float* own, __global float* state, __global float* cell,
                        __global float* now, const int size) {
  #pragma unroll 1
  for (int j = 0; j < size; j += 16, x += 16, own += 16) {
    const float16 in = POST_LOGISTIC(LOAD_LOOSE(x) + LOAD_LOOSE(own));
    const float16 out = POST_LOGISTIC(LOAD_LOOSE(x + size) + LOAD_LOOSE(own + size));
    const float16 keep = POST_LOGISTIC(LOAD_LOOSE(x + 2 * size) + LOAD_LOOSE(own + 2 * size));
    const float16 fresh = post_tanh(LOAD_LOOSE(x + 3 * size) + LOAD_LOOSE(own + 3 * size));
    const float16 next = keep * LOAD16(cell + j) + in * fresh;
    const float16 h = out * post_tanh(next);
    STORE16(cell + j, next);
    STORE16(state + j, h);
    STORE_LOOSE(now + j, h);
  }
}

static void recurrent_steps_products(__global const recurrent_steps_products_desc* d, __global char** banks,
                                     __global char* scratch, const int ticket, __global const post_step* post,
                                     const int posts) {
  const int size = d->units, kind = d->cell, gates = kind == 0 ? 1 : kind == 1 ? 3 : 4;
  const int direction = ticket / d->runs, line0 = (ticket - direction * d->runs) * d->ticket_lines;
  const int lines = min(d->ticket_lines, d->batch - line0), pitch = (size + 15) / 16 * 16, wide = d->groups * 64;
  const int backward = d->backward || direction == 1, token = d->batch * d->directions;
  const float limit = d->limit;
  __global const post_step* functions = post + direction * (kind + 1);
  __global const int* lengths = d->lengths == CLGRAPH_NULL ? 0 : AT(const int, banks, d->lengths) + line0;
  __global const float* ahead = AT(const float, banks, d->ahead) + (long)(line0 * d->directions + direction) * gates * size;
  __global float* every = AT(float, banks, d->every) + (long)(direction * d->batch + line0) * size;
  __global const float* r = AT(const float, banks, d->weights) + (long)direction * d->groups * size * 64;
  __global const float* bias = d->bias == CLGRAPH_NULL ? 0 : AT(const float, banks, d->bias) + direction * gates * size;
  __global const float* peep = d->peephole == CLGRAPH_NULL ? 0
                                                           : AT(const float, banks, d->peephole) + direction * 3 * size;
  __global float* states = (__global float*)scratch;
  __global float* cells = states + lines * pitch;
  __global float* updates = cells + lines * pitch;
  // Of an LSTM updates have no use.
  __global float* read = d->rounded ? updates : states;
  __global float* sums = updates + lines * pitch;
  const long first = (long)direction * d->batch + line0;

  for (int i = 0; i < lines; i++)
    for (int j = 0; j < size; j += 16) {
      const int lanes = min(16, size - j);
      const long at = (first + i) * size + j;
      float16 h = 0.0f, c = 0.0f;
      if (d->hidden != CLGRAPH_NULL) h = load_part(AT(const float, banks, d->hidden) + at, lanes);
      if (d->first != CLGRAPH_NULL) c = load_part(AT(const float, banks, d->first) + at, lanes);
      STORE16(states + i * pitch + j, h);
      STORE16(cells + i * pitch + j, c);
    }

#define GATE(g) \
  (load_part(x + (g) * size + j, lanes) + LOAD_LOOSE(own + (g) * size + j) + \
   (bias ? load_part(bias + (g) * size + j, lanes) : (float16)(0.0f)))
#define PEEP(g, c) (peep ? load_part(peep + (g) * size + j, lanes) * (c) : (float16)(0.0f))

  // Bits are the same either way.
  const int usual = kind == 2 && size % 16 == 0 && !bias && !peep && !d->coupled && limit <= 0 &&
                    functions[0].code == POST_SIGMOID && functions[1].code == POST_TANH && functions[2].code == POST_TANH;
  // A GRU that resets in front of its last product takes the first `split` rows of r for its other gates.
  const int split = kind == 1 && !d->linear ? 2 * size : gates * size;
  for (int step = 0; step < d->tokens; step++) {
    if (d->rounded) round_states(states, read, lengths, step, lines, size);
    multiply_states(d, read, pitch, r, sums, lines, 0, (split + 63) / 64);
    if (split < gates * size) {
      for (int i = 0; i < lines; i++) {
        const int t = token_at(step, lengths ? min(lengths[i], d->tokens) : d->tokens, backward);
        __global const float* x = ahead + ((long)t * token + i * d->directions) * gates * size;
        __global const float* own = sums + (long)i * wide;
        for (int j = 0; j < size; j += 16) {
          const int lanes = min(16, size - j);
          STORE16(updates + i * pitch + j, activated(functions, limit, GATE(0)));
          STORE16(cells + i * pitch + j, activated(functions, limit, GATE(1)) * LOAD16(states + i * pitch + j));
        }
      }
      multiply_states(d, cells, pitch, r, sums, lines, split / 64, d->groups);
    }
    for (int i = 0; i < lines; i++) {
      const int length = lengths ? min(lengths[i], d->tokens) : d->tokens, t = token_at(step, length, backward);
      __global const float* x = ahead + ((long)t * token + i * d->directions) * gates * size;
      __global const float* own = sums + (long)i * wide;
      __global float* now = every + ((long)t * token + i) * size;
      if (usual && step < length) {
        usual_cells(x, own, states + i * pitch, cells + i * pitch, now, size);
        continue;
      }
      for (int j = 0; j < size; j += 16) {
        const int lanes = min(16, size - j);
        if (step >= length) {
          store_lanes(now + j, 0.0f, lanes);
          continue;
        }
        __global float* state = states + i * pitch + j;
        __global float* cell = cells + i * pitch + j;
        float16 h;
        if (kind == 0) {
          h = activated(functions, limit, GATE(0));
        } else if (kind == 1) {
          float16 update = LOAD16(updates + i * pitch + j), mixed;
          if (d->linear) {
            update = activated(functions, limit, GATE(0));
            const float16 b = bias ? load_part(bias + 2 * size + j, lanes) : (float16)(0.0f);
            mixed = load_part(x + 2 * size + j, lanes) +
                    activated(functions, limit, GATE(1)) * (LOAD_LOOSE(own + 2 * size + j) + b);
          } else {
            mixed = GATE(2);
          }
          h = (1 - update) * activated(functions + 1, limit, mixed) + update * LOAD16(state);
        } else {
          const float16 old = LOAD16(cell);
          const float16 in = activated(functions, limit, GATE(0) + PEEP(0, old));
          const float16 keep = d->coupled ? 1 - in : activated(functions, limit, GATE(2) + PEEP(2, old));
          const float16 next = keep * old + in * activated(functions + 1, limit, GATE(3));
          h = activated(functions, limit, GATE(1) + PEEP(1, next)) * activated(functions + 2, 0.0f, next);
          STORE16(cell, next);
        }
        STORE16(state, h);
        store_lanes(now + j, h, lanes);
      }
    }
  }
#undef GATE
#undef PEEP

  for (int i = 0; i < lines; i++)
    for (int j = 0; j < size; j += 16) {
      const int lanes = min(16, size - j);
      const long at = (first + i) * size + j;
      store_lanes(AT(float, banks, d->last) + at, LOAD16(states + i * pitch + j), lanes);
      if (d->cells != CLGRAPH_NULL) store_lanes(AT(float, banks, d->cells) + at, LOAD16(cells + i * pitch + j), lanes);
    }
}
