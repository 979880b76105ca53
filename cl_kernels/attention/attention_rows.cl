// Attention on dense plain tensors: y = softmax(scale * q k + bias) v, a matrix of queries, keys and values at a time.
//
// A ticket is a run of queries of one batch element. Its scores, [queries][keys rounded up to 64], stay in scratch from
// the product with the keys over the exponentials to the product with the values. Products read 64 columns of the right
// side even where it has fewer, what follows in memory; the columns that do not exist are not used. Behind the last batch
// element may be nothing, so that its keys and values are packed in scratch first. One or two queries read rows of keys, and
// then those of values, as they are.
//
// q, k, v, out   matrices side by side, q_batch, ... floats apart: [rows][depth], [depth][keys] or (by_key) [keys][depth],
//                [keys][width], [rows][width]
// bias           added to the scores, or CLGRAPH_NULL; bias_row, bias_column: its floats from one query, key to the next
// inner, bias_outer, bias_inner   batch elements that the bias counts apart from the others, and its floats from one to
//                the next of both kinds
// ticket_rows, spans              queries of a ticket, tickets of one batch element
// batch                           batch elements
// nb, widest, first_id            as in matmul_rows.cl
// narrow_id                       instance of 6 rows and 32 columns; -1: none
//
// Error: a score s is off by (depth + 2) * 2^-24 * (scale * sum |q k| + |bias|), the weights by that and by
// (|s - max| + 8) * 2^-24 relative, their sum by keys / 16 + 8, the result by keys * 2^-24, relative to sum weight |v|.
#include "pack.clh"
#include "rows.clh"

#define ATTENTION_ROWS 24  // most queries of a ticket
#define ATTENTION_FEW 2    // so many queries read keys and values where they lie

// Some rows of a product with a right side of at most 64 columns; of at most 32 in blocks of their own.
static void attention_product(__global const attention_rows_desc* d, __global const float* a, const int a_row,
                              __global const float* b, const int b_row, __global float* c, const int c_row,
                              const int columns, const int depth, const int rows) {
  int y = 0;
  for (; d->narrow_id >= 0 && columns <= 32 && y + 6 <= rows; y += 6)
    micro_matmul(d->narrow_id, a + (long)y * a_row, a_row, 1, b, b_row, c + (long)y * c_row, c_row, columns, depth, 0, b, 0);
  while (y < rows) {
    const int left = rows - y, pieces = (left + d->widest - 1) / d->widest, count = (left + pieces - 1) / pieces;
    for (int j = 0; j < columns; j += d->nb * 16)
      micro_matmul(d->first_id + count - 1, a + (long)y * a_row, a_row, 1, b + j, b_row, c + (long)y * c_row + j, c_row,
                   columns - j, depth, 0, b, 0);
    y += count;
  }
}

// Sums of neighbouring lanes, those of `a` in front of those of `b`.
static float16 attention_pairs(const float16 a, const float16 b) {
  return (float16)(a.even, b.even) + (float16)(a.odd, b.odd);
}

// Products of a query and four keys, `step` floats apart, as sums in 4 lanes each.
static float16 attention_four(__global const float* q, __global const float* k, const long step, const int depth) {
  float16 a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
  int i = 0;
  for (; i + 16 <= depth; i += 16) {
    const float16 w = LOAD_LOOSE(q + i);
    a = fma(LOAD_LOOSE(k + i), w, a);
    b = fma(LOAD_LOOSE(k + step + i), w, b);
    c = fma(LOAD_LOOSE(k + 2 * step + i), w, c);
    d = fma(LOAD_LOOSE(k + 3 * step + i), w, d);
  }
  if (i < depth) {
    const int rest = depth - i;
    const float16 w = load_lanes(q + i, 1, rest);
    a = fma(load_lanes(k + i, 1, rest), w, a);
    b = fma(load_lanes(k + step + i, 1, rest), w, b);
    c = fma(load_lanes(k + 2 * step + i, 1, rest), w, c);
    d = fma(load_lanes(k + 3 * step + i, 1, rest), w, d);
  }
  return attention_pairs(attention_pairs(a, b), attention_pairs(c, d));
}

// Scores of a query and keys that lie in rows, which are read once: packing them would take longer than their products.
// The sums of 16 keys are made together, in four halvings.
static void attention_scores(__global const float* q, __global const float* k, const int depth, const int keys,
                             __global float* scores) {
  const long step = depth;
  int j = 0;
  for (; j + 16 <= keys; j += 16, k += 16 * step) {
    const float16 a = attention_four(q, k, step, depth), b = attention_four(q, k + 4 * step, step, depth);
    const float16 c = attention_four(q, k + 8 * step, step, depth), d = attention_four(q, k + 12 * step, step, depth);
    STORE16(scores + j, attention_pairs(attention_pairs(a, b), attention_pairs(c, d)));
  }
  for (; j < keys; j++, k += step) {
    const float16 a = attention_four(q, k, 0, depth);
    scores[j] = a.s0 + a.s1 + a.s2 + a.s3;
  }
}

// Turn a row of scores into what the exponential is taken of, -infinity behind the last key; return the largest.
static float attention_top(__global float* row, __global const float* bias, const int bias_column, const float scale,
                           const int keys) {
  const int whole = keys / 16, rest = keys % 16;
  float16 top = -INFINITY;
  for (int i = 0; i < whole; i++) {
    float16 v = LOAD16(row + i * 16) * scale;
    if (bias) v += bias_column ? LOAD_LOOSE(bias + i * 16) : (float16)(*bias);
    STORE16(row + i * 16, v);
    top = v > top ? v : top;
  }
  if (rest) {
    float16 v = LOAD16(row + whole * 16) * scale;
    if (bias) v += bias_column ? load_lanes(bias + whole * 16, 1, rest) : (float16)(*bias);
    v = lane_mask(rest) ? v : (float16)(-INFINITY);
    STORE16(row + whole * 16, v);
    top = v > top ? v : top;
  }
  return max_lanes(top);
}

// Turn them into exponentials; return their sum.
static float attention_weights(__global float* row, const float top, const int keys) {
  float16 sum = 0.0f;
  for (int i = 0; i < (keys + 15) / 16; i++) {
    const float16 e = post_exp(LOAD16(row + i * 16) - top);
    STORE16(row + i * 16, e);
    sum += e;
  }
  return sum_lanes(sum);
}

// The mixture of values that lie in rows by the weights of a query, in columns of two vectors, which one walk over the keys sums.
static void attention_mixture(__global const float* weights, __global const float* v, const int width, const int keys,
                              __global float* out) {
  for (int g = 0; g < width; g += 32) {
    const int low = min(16, width - g), high = min(16, width - g - 16);
    __global const float* row = v + g;
    float16 a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    int j = 0;
    if (high == 16) {
      for (; j + 2 <= keys; j += 2, row += 2 * (long)width) {
        const float16 first = weights[j], second = weights[j + 1];
        a = fma(LOAD_LOOSE(row), first, a);
        b = fma(LOAD_LOOSE(row + 16), first, b);
        c = fma(LOAD_LOOSE(row + width), second, c);
        d = fma(LOAD_LOOSE(row + width + 16), second, d);
      }
    }
    for (; j < keys; j++, row += width) {
      const float16 w = weights[j];
      a = fma(load_lanes(row, 1, low), w, a);
      if (high > 0) b = fma(load_lanes(row + 16, 1, high), w, b);
    }
    store_lanes(out + g, a + c, low);
    if (high > 0) store_lanes(out + g + 16, b + d, high);
  }
}

static void attention_rows(__global const attention_rows_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int n = ticket / d->spans, first = (ticket - n * d->spans) * d->ticket_rows;
  const int rows = min(d->ticket_rows, d->rows - first), keys = d->keys, depth = d->depth, width = d->width;
  const int pitch = (keys + 63) / 64 * 64;
  __global float* scores = (__global float*)scratch;
  __global float* packed = scores + (long)d->ticket_rows * pitch;
  __global const float* q = AT(const float, banks, d->q) + (long)n * d->q_batch + (long)first * depth;
  __global const float* k = AT(const float, banks, d->k) + (long)n * d->k_batch;
  __global const float* v = AT(const float, banks, d->v) + (long)n * d->v_batch;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_batch + (long)first * width;

  const bool behind = n < d->batch - 1;
  const bool few = d->by_key && rows <= ATTENTION_FEW;
  for (int i = 0; few && i < rows; i++) attention_scores(q + (long)i * depth, k, depth, keys, scores + (long)i * pitch);
  for (int g = 0; !few && g < keys; g += 64) {
    const bool whole = !d->by_key && (behind || keys - g >= 64);
    if (!whole)
      pack_columns(d->by_key ? k + (long)g * depth : k + g, d->by_key ? 1 : keys, d->by_key ? depth : 1, depth,
                   min(64, keys - g), packed);
    attention_product(d, q, depth, whole ? k + g : packed, whole ? keys : 64, scores + g, pitch, 64, depth, rows);
  }
  float tops[ATTENTION_ROWS], scales[ATTENTION_ROWS];
  for (int i = 0; i < rows; i++) {
    __global const float* bias = 0;
    if (d->bias != CLGRAPH_NULL)
      bias = AT(const float, banks, d->bias) + (long)(n / d->inner) * d->bias_outer + (long)(n % d->inner) * d->bias_inner +
             (long)(first + i) * d->bias_row;
    tops[i] = attention_top(scores + (long)i * pitch, bias, d->bias_column, d->scale, keys);
  }
  for (int i = 0; i < rows; i++) scales[i] = 1.0f / attention_weights(scores + (long)i * pitch, tops[i], keys);
  for (int i = 0; few && i < rows; i++) attention_mixture(scores + (long)i * pitch, v, width, keys, out + (long)i * width);
  for (int g = 0; !few && g < width; g += 64) {
    const int columns = min(64, width - g);
    const bool whole = behind || columns == 64;
    if (!whole) pack_columns(v + g, width, 1, keys, columns, packed);
    attention_product(d, scores, pitch, whole ? v + g : packed, whole ? width : 64, out + g, width, columns, keys, rows);
  }
  for (int i = 0; i < rows; i++) {
    __global float* row = out + (long)i * width;
    const float16 scale = scales[i];
    for (int j = 0; j * 16 < width; j++) store_row(row, j, width, load_row(row, j, width, 0.0f) * scale);
    post_whole_row(post, posts, banks, row, n, 0, first + i, width);
  }
}
