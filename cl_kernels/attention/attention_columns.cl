// Attention on plain tensors: y = softmax(scale * q k + bias) v, a matrix of queries, keys and values at a time.
//
// A ticket is a run of at most 64 queries of one batch element. They are packed side by side, [depth][64], and their scores,
// [keys][64], stay in scratch from the product of keys and queries over the exponentials to the product with the values:
// each query has a lane of its own, so that nothing is summed across lanes. Queries, keys and values are read where they lie.
// Products read whole vectors of values, what follows in memory behind a row; values are packed in scratch where nothing may.
//
// q, k, v, out   matrices: [rows][depth], [keys][depth], [keys][width], [rows][width]; q_outer and q_inner, ... are floats
//                from one batch element to the next along two axes, q_row, ... and q_column, k_column within a matrix;
//                elements of a row of v and out lie side by side
// v_floats       floats from the first to behind the last of v
// inner          batch elements along the inner axis
// bias           added to the scores, or CLGRAPH_NULL; bias_row, bias_column: its floats from one query, key to the next,
//                bias_column at most 1
// ticket_rows, spans              queries of a ticket, tickets of one batch element
// nb, widest, first_id            as in matmul_rows.cl
// narrow_id                       instance of 6 rows and 32 columns, the next one of 12; -1: none
// scores_id                       instance of micro_scores of one key; that of 6 keys and j vectors of queries has j more
//
// Error: a score s is off by (depth + 2) * 2^-24 * (scale * sum |q k| + |bias|), the weights by that and by
// (|s - max| + 8) * 2^-24 relative, their sum by keys, the result by keys * 2^-24, relative to sum weight |v|.
#include "pack.clh"
#include "rows.clh"

#define ATTENTION_LANES 64  // most queries of a ticket

// Columns that are computed where a product has this many.
static int attention_columns_read(__global const attention_columns_desc* d, const int columns, const int rows) {
  const int step = d->narrow_id >= 0 && columns <= 32 && rows >= 6 ? 32 : d->nb * 16;
  return (columns + step - 1) / step * step;
}

// A product with a right side of at most 64 columns. Narrow ones go in blocks of 12 and 6 rows, the last of which begins so that it
// is full: rows that it has in common with the one before are computed twice, with the same result.
static void attention_columns_product(__global const attention_columns_desc* d, __global const float* a, const long a_row,
                                      const int a_step, __global const float* b, const int b_row, __global float* c,
                                      const long c_row, const int columns, const int depth, const int rows) {
  if (d->narrow_id >= 0 && columns <= 32 && rows >= 6) {
    for (int i = 0, count; i < rows; i += count) {
      count = rows >= 12 && rows - i > 6 ? 12 : 6;
      const int y = min(i, rows - count);
      micro_matmul(d->narrow_id + count / 12, a + y * a_row, a_row, a_step, b, b_row, c + y * c_row, c_row, columns, depth, 0,
                   b, 0);
    }
    return;
  }
  for (int y = 0; y < rows;) {
    const int left = rows - y, pieces = (left + d->widest - 1) / d->widest, count = (left + pieces - 1) / pieces;
    for (int j = 0; j < columns; j += d->nb * 16)
      micro_matmul(d->first_id + count - 1, a + y * a_row, a_row, a_step, b + j, b_row, c + y * c_row + j, c_row,
                   columns - j, depth, 0, b, 0);
    y += count;
  }
}

// Scores of all keys and as many vectors of queries as there are rows, with a bias that all queries have in common, and the
// largest score of each query.
static void attention_columns_scores(__global const attention_columns_desc* d, __global const float* k,
                                     __global const float* queries, __global const float* bias, const int rows,
                                     __global float* scores, __global float* top) {
  const int vectors = (rows + 15) / 16;
  for (int j = 0, count; j < vectors; j += count) {
    count = d->keys < 6 ? 1 : min(vectors - j, d->nb);
    micro_scores(d->scores_id + (d->keys < 6 ? 0 : count), k, d->k_row, d->k_column, queries + j * 16, d->depth, d->keys,
                 scores + j * 16, d->scale, bias, d->bias_column, top + j * 16);
  }
}

// Add the bias of 16 queries, each of which has its own, to their scores; return the largest. `bias` is that of the first of
// the queries; `tile` has room for 256 floats.
static float16 attention_columns_biased(__global const attention_columns_desc* d, __global float* scores,
                                        __global const float* bias, const int rows, __global float* tile) {
  const int keys = d->keys, by_key = d->bias_column;
  float16 top = -INFINITY, added = 0.0f;
  if (!by_key) added = load_lanes(bias, d->bias_row, rows);
  for (int first = 0; first < keys; first += 16) {
    const int count = min(16, keys - first);
    if (by_key) transpose_tile(bias + first, d->bias_row, tile, 16, rows, count, 1);
    for (int i = 0; i < count; i++) {
      __global float* at = scores + (first + i) * ATTENTION_LANES;
      if (by_key) added = LOAD16(tile + i * 16);
      const float16 v = LOAD16(at) + added;
      STORE16(at, v);
      top = v > top ? v : top;
    }
  }
  return top;
}

// Turn the scores of 16 queries, at most `top`, into their weights but for the sums, which are returned.
static float16 attention_columns_weights(__global float* scores, const int keys, const float16 top) {
  float16 sum = 0.0f;
  for (int i = 0; i < keys; i++) {
    const float16 e = post_exp(LOAD16(scores + i * ATTENTION_LANES) - top);
    STORE16(scores + i * ATTENTION_LANES, e);
    sum += e;
  }
  return sum;
}

static void attention_columns(__global const attention_columns_desc* d, __global char** banks, __global char* scratch,
                              const int ticket, __global const post_step* post, const int posts) {
  const int n = ticket / d->spans, first = (ticket - n * d->spans) * d->ticket_rows;
  const long outer = n / d->inner, inner = n % d->inner;
  const int rows = min(d->ticket_rows, d->rows - first), keys = d->keys, depth = d->depth, width = d->width;
  __global float* scores = (__global float*)scratch;
  __global float* queries = scores + (long)keys * ATTENTION_LANES;
  __global float *top = queries + (depth + 15) / 16 * 16 * ATTENTION_LANES, *packed = top + ATTENTION_LANES;
  __global const float* q = AT(const float, banks, d->q) + outer * d->q_outer + inner * d->q_inner + first * d->q_row;
  __global const float* k = AT(const float, banks, d->k) + outer * d->k_outer + inner * d->k_inner;
  const long at = outer * d->v_outer + inner * d->v_inner;
  __global const float* v = AT(const float, banks, d->v) + at;
  __global float* out = AT(float, banks, d->out) + outer * d->out_outer + inner * d->out_inner + first * d->out_row;
  __global const float* bias = 0;
  if (d->bias != CLGRAPH_NULL)
    bias = AT(const float, banks, d->bias) + outer * d->bias_outer + inner * d->bias_inner + (long)first * d->bias_row;

  pack_columns(q, d->q_column, d->q_row, depth, rows, queries);
  const bool own = bias && d->bias_row;
  attention_columns_scores(d, k, queries, own ? 0 : bias, rows, scores, top);
  float scales[ATTENTION_LANES];
  for (int j = 0; j < rows; j += 16) {
    float16 most = LOAD16(top + j);
    if (own) most = attention_columns_biased(d, scores + j, bias + (long)j * d->bias_row, min(16, rows - j), packed);
    vstore16(1.0f / attention_columns_weights(scores + j, keys, most), 0, scales + j);
  }
  for (int g = 0; g < width; g += 64) {
    const int columns = min(64, width - g);
    const bool whole = at + (keys - 1) * d->v_row + g + attention_columns_read(d, columns, rows) <= d->v_floats;
    if (!whole) pack_columns(v + g, d->v_row, 1, keys, columns, packed);
    attention_columns_product(d, scores, 1, ATTENTION_LANES, whole ? v + g : packed, whole ? d->v_row : 64, out + g,
                              d->out_row, columns, keys, rows);
  }
  for (int i = 0; i < rows; i++) {
    __global float* row = out + i * d->out_row;
    const float16 scale = scales[i];
    for (int j = 0; j * 16 < width; j++) store_row(row, j, width, load_row(row, j, width, 0.0f) * scale);
    post_whole_row(post, posts, banks, row, n, 0, first + i, width);
  }
}
