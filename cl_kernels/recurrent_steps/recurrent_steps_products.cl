// A recurrent network over sequences whose inputs are multiplied already: RNN, GRU or LSTM, with r packed for products.
//
// A ticket is a run of sequences of one direction. It walks their tokens: the products of all gates for all its sequences,
// then the cells, sixteen units at a time. States, cells and products lie in the worker's scratch.
//
// Of a stack of layers, each on the states of the one before, a step is a wave: layer l, in the place of direction l, walks
// chunk wave - l of the tokens; tickets begin with the first layer that has one. It multiplies their inputs first, and begins with the states in `last` and
// `cells` where the chunk before has ended. What it reads of the layer before was made in the wave before.
//
// ahead, weights, bias, lengths, hidden, first, peephole    ahead [tokens, batch, directions, gates, H];  r [directions,
//                             groups, H, 64], zeros behind the last row;  bias of r [directions, gates, H];  lengths [batch]
//                             (int);  first states and cells [directions, batch, H];  peephole [directions, 3, H]; all
//                             but the first two may be CLGRAPH_NULL
// every, last, cells          [tokens, directions, batch, H], zeros beyond a sequence's length;  [directions, batch, H]
// x, w_first, w_others, x_bias, between    of a stack, else CLGRAPH_NULL, as ahead is then: x [tokens, batch, depth];  weights
//                             of x [groups, depth, 64], of the others [layers - 1, groups, H, 64];  bias [layers, gates, H] or
//                             CLGRAPH_NULL;  states that layers hand on [layers - 1, tokens, batch, H];  `every` is the last's
// depth, chunk_tokens, wave   of a stack, else 0, tokens, 0
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

// to[i][64 g ..] of groups `from` to `last` - 1, rows `wide` floats apart: `rows` of a, `pitch` floats apart, times those of
// the weights w, of `depth` each.
NOINLINE static void multiply_rows(__global const recurrent_steps_products_desc* d, __global const float* a, const long pitch,
                                   const int depth, __global const float* w, __global float* to, const long wide,
                                   const int rows, const int from, const int last) {
  for (int g = from; g < last; g++)
    for (int i = 0; i < rows;) {
      const int left = rows - i, pieces = (left + d->widest - 1) / d->widest, count = (left + pieces - 1) / pieces;
      for (int j = 0; j < 64; j += d->nb * 16) {
        __global const float* b = w + (long)g * depth * 64 + j;
        micro_matmul(d->first_id + count - 1, a + i * pitch, pitch, 1, b, 64, to + i * wide + g * 64 + j, wide, d->nb * 16,
                     depth, 0, b, 0);
      }
      i += count;
    }
}

// What goes into the gates of `layer` of a stack, of tokens `from` to `last` - 1 and sequences from `line0` on:
// to[token][line][groups * 64].
static void multiply_inputs(__global const recurrent_steps_products_desc* d, __global char** banks, const int layer,
                            const int from, const int last, const int line0, const int lines, __global float* to) {
  const int wide = d->groups * 64, rows = (d->cell == 0 ? 1 : d->cell == 1 ? 3 : 4) * d->units, batch = d->batch;
  const int depth = layer ? d->units : d->depth;
  __global const float* x = layer ? AT(const float, banks, d->between) + (long)(layer - 1) * d->tokens * batch * depth
                                  : AT(const float, banks, d->x);
  __global const float* w =
      layer ? AT(const float, banks, d->w_others) + (long)(layer - 1) * depth * wide : AT(const float, banks, d->w_first);
  x += ((long)from * batch + line0) * depth;
  if (lines == batch) {
    multiply_rows(d, x, depth, depth, w, to, wide, (last - from) * lines, 0, d->groups);
  } else {
    for (int i = 0; i < lines; i++)
      multiply_rows(d, x + (long)i * depth, (long)batch * depth, depth, w, to + (long)i * wide, (long)lines * wide,
                    last - from, 0, d->groups);
  }
  if (d->x_bias == CLGRAPH_NULL) return;
  __global const float* bias = AT(const float, banks, d->x_bias) + layer * rows;
  for (int i = 0; i < (last - from) * lines; i++)
    for (int j = 0; j < rows; j += 16) {
      __global float* at = to + (long)i * wide + j;
      STORE16(at, LOAD16(at) + load_part(bias + j, min(16, rows - j)));
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
  const int stacked = d->depth > 0, run = ticket / d->runs, line0 = (ticket - run * d->runs) * d->ticket_lines;
  const int direction = stacked ? max(0, d->wave - (d->tokens - 1) / d->chunk_tokens) + run : run;
  const int lines = min(d->ticket_lines, d->batch - line0), pitch = (size + 15) / 16 * 16, wide = d->groups * 64;
  const int chunk = stacked ? d->wave - direction : 0;
  const int from = chunk * d->chunk_tokens, end = min(d->tokens, from + d->chunk_tokens);
  const int backward = !stacked && (d->backward || direction == 1), token = stacked ? d->batch : d->batch * d->directions;
  const float limit = d->limit;
  __global const post_step* functions = post + direction * (kind + 1);
  __global const int* lengths = d->lengths == CLGRAPH_NULL ? 0 : AT(const int, banks, d->lengths) + line0;
  // Layers below the last of a stack write to `between`.
  const int below = stacked && direction + 1 < d->directions;
  const long before = below ? (long)direction * d->tokens * d->batch : stacked ? 0 : direction * d->batch;
  __global float* every = AT(float, banks, below ? d->between : d->every) + (before + line0) * size;
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
  // What goes into the gates at token t of sequence i begins at t * x_token + i * x_line.
  const long x_line = stacked ? wide : d->directions * gates * size, x_token = x_line * (stacked ? lines : d->batch);
  __global const float* ahead = sums + (long)lines * wide - from * x_token;
  if (stacked) multiply_inputs(d, banks, direction, from, end, line0, lines, sums + (long)lines * wide);
  else ahead = AT(const float, banks, d->ahead) + (long)(line0 * d->directions + direction) * gates * size;
  // A chunk begins where the one before has ended.
  const long begin_hidden = chunk ? d->last : d->hidden, begin_cell = chunk ? d->cells : d->first;
  const long first = (long)direction * d->batch + line0;

  for (int i = 0; i < lines; i++)
    for (int j = 0; j < size; j += 16) {
      const int lanes = min(16, size - j);
      const long at = (first + i) * size + j;
      float16 h = 0.0f, c = 0.0f;
      if (begin_hidden != CLGRAPH_NULL) h = load_part(AT(const float, banks, begin_hidden) + at, lanes);
      if (begin_cell != CLGRAPH_NULL) c = load_part(AT(const float, banks, begin_cell) + at, lanes);
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
  for (int step = from; step < end; step++) {
    if (d->rounded) round_states(states, read, lengths, step, lines, size);
    multiply_rows(d, read, pitch, size, r, sums, wide, lines, 0, (split + 63) / 64);
    if (split < gates * size) {
      for (int i = 0; i < lines; i++) {
        const int t = token_at(step, lengths ? min(lengths[i], d->tokens) : d->tokens, backward);
        __global const float* x = ahead + t * x_token + i * x_line;
        __global const float* own = sums + (long)i * wide;
        for (int j = 0; j < size; j += 16) {
          const int lanes = min(16, size - j);
          STORE16(updates + i * pitch + j, activated(functions, limit, GATE(0)));
          STORE16(cells + i * pitch + j, activated(functions, limit, GATE(1)) * LOAD16(states + i * pitch + j));
        }
      }
      multiply_rows(d, cells, pitch, size, r, sums, wide, lines, split / 64, d->groups);
    }
    for (int i = 0; i < lines; i++) {
      const int length = lengths ? min(lengths[i], d->tokens) : d->tokens, t = token_at(step, length, backward);
      __global const float* x = ahead + t * x_token + i * x_line;
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
