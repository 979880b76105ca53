// y = softmax(cap(scale q k') + bias) v for queries of new tokens over the caches of keys and values, CHUNK keys at a time
// (Milakov and Gimelshein 2018, online softmax). append_cache.cl has written the new ones.
//
// A ticket is a run of queries that share a head of the caches: rows [heads / shared][tokens] of a text, side by side.
// Chunks begin at multiples of CHUNK keys, so that a result does not depend on what else a run or ticket computes; what a
// row must not see has weight 0. Keys of a chunk are transposed in scratch, the scores and the mixture of values are
// products in register blocks.
//
// q, out               [batch][heads][tokens][depth], the results with width
// lengths, state, keys_at, values_at, type, itemsize   as in append_cache.cl
// bias, bias_text, bias_head, bias_row   added to the scores, or CLGRAPH_NULL; rows of a float a place, from one text, head
//                      and token to the next
// sink                 [heads]: a score that joins the sum of the weights, or CLGRAPH_NULL
// batch, heads, shared, tokens, depth, width          sizes
// causal               whether a token sees nothing behind itself; else all new ones
// window               keys that a token sees, itself the last of them; -1: all
// ticket_rows, spans   queries of a ticket, at most ROWS; tickets of a head of the caches
// nb, widest, first_id as in matmul_rows.cl
// scale, cap           scores become cap * tanh(scale q k / cap); cap 0: they stay
//
// Error: a score is off by (depth + 8) * 2^-24 * (scale * sum |q k| + |bias|), the weights by that and by
// (|s - max| + 8) * 2^-24 relative, their sum and the result by (keys + 2 chunks) * 2^-24, relative to sum weight |v|.
#include "cache_numbers.clh"
#include "pack.clh"
#include "rows.clh"

#define CHUNK 256
#define ROWS 48
#define AHEAD 32

// Keys as the right side of a product: to[i][0 .. 63] of `depth` rows, zeros behind the last of `columns` keys. A tile of 16
// keys reads a line of each, `depth` floats apart, which cores do not fetch by themselves: those of the first `next` keys
// that come AHEAD behind these are fetched meanwhile.
static void pack_keys(__global const float* keys, const int depth, const int columns, const int next, __global float* to) {
  for (int j = 0; j < 64; j += 16) {
    const int lanes = clamp(columns - j, 0, 16), ahead = clamp(next - j, 0, 16);
    for (int k = 0; k < depth; k += 16) {
      __global const float* from = keys + (long)j * depth + k;
      for (int i = 0; i < ahead; i++) FETCH(from + (long)(AHEAD + i) * depth);
      transpose_tile(from, depth, to + k * 64 + j, 64, lanes, min(16, depth - k), 1);
    }
  }
}

// Some rows of a product with a right side of at most 64 columns.
static void cache_product(__global const attend_cache_desc* d, __global const float* a, const int a_row,
                          __global const float* b, const int b_row, __global float* c, const int c_row, const int columns,
                          const int depth, const int rows) {
  for (int y = 0; y < rows;) {
    const int left = rows - y, pieces = (left + d->widest - 1) / d->widest, count = (left + pieces - 1) / pieces;
    for (int j = 0; j < columns; j += d->nb * 16)
      micro_matmul(d->first_id + count - 1, a + (long)y * a_row, a_row, 1, b + j, b_row, c + (long)y * c_row + j, c_row,
                   columns - j, depth, 0, b, 0);
    y += count;
  }
}

// The first and last key that the row of token t sees.
static int first_key(__global const attend_cache_desc* d, const int place) {
  return d->window < 0 ? 0 : max(0, place - d->window + 1);
}

static int last_key(__global const attend_cache_desc* d, const int first, const int t, const int places) {
  return min(places - 1, first + (d->causal ? t : d->tokens - 1));
}

// Turn the scores of keys from `key` on into exponentials, 0 for those outside of low .. high; return their sum. `top` is the
// largest score so far; `less` becomes what all that was computed before it is multiplied by.
static float cache_weights(__global const attend_cache_desc* d, __global float* row, __global const float* bias,
                           const int key, const int count, const int low, const int high, float* top, float* less) {
  float16 most = -INFINITY, sum = 0.0f;
  const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  // A row that sees all keys of a whole chunk goes without masks, whatever else is in its ticket.
  const int plain = !bias && d->cap == 0.0f && low <= key && key + CHUNK - 1 <= high;
  for (int i = 0; plain && i < CHUNK; i += 16) {
    const float16 v = LOAD_LOOSE(row + i) * d->scale;
    most = v > most ? v : most;
  }
  for (int i = 0; !plain && i < count; i += 16) {
    float16 v = LOAD_LOOSE(row + i) * d->scale;
    if (d->cap != 0.0f) v = post_tanh(v * (1.0f / d->cap)) * d->cap;
    if (bias) v += load_lanes(bias + key + i, 1, min(16, count - i));
    const int16 at = lanes + (key + i);
    v = at >= low && at <= high && lanes < count - i ? v : (float16)(-INFINITY);
    STORE_LOOSE(row + i, v);
    most = v > most ? v : most;
  }
  const float before = *top, now = max(before, max_lanes(most));
  *top = now;
  *less = before == now ? 1.0f : exp(before - now);
  for (int i = 0; plain && i < CHUNK; i += 16) {
    const float16 e = post_exp(LOAD_LOOSE(row + i) * d->scale - now);
    STORE_LOOSE(row + i, e);
    sum += e;
  }
  for (int i = 0; !plain && i < count; i += 16) {
    const float16 v = LOAD_LOOSE(row + i);
    const float16 e = v == (float16)(-INFINITY) ? (float16)(0.0f) : post_exp(v - now);
    STORE_LOOSE(row + i, e);
    sum += e;
  }
  return sum_lanes(sum);
}

static void attend_cache(__global const attend_cache_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int n = ticket / d->spans, text = n / d->shared, group = d->heads / d->shared, tokens = d->tokens;
  const int from = (ticket - n * d->spans) * d->ticket_rows, rows = min(d->ticket_rows, group * tokens - from);
  const int depth = d->depth, width = d->width, type = d->type;
  __global const int* lengths = AT(const int, banks, d->lengths);
  const int places = lengths[0], first = lengths[1 + text];
  const long row = (long)n * group * tokens + from, texts = (long)d->batch * places;
  __global const float* q = AT(const float, banks, d->q) + row * depth;
  __global float* out = AT(float, banks, d->out) + row * width;
  __global const char* state = AT(const char, banks, d->state);
  __global const char* k = state + texts * d->keys_at * d->itemsize + cache_bytes(type, d->itemsize, (long)n * places * depth);
  __global const char* v = state + texts * d->values_at * d->itemsize + cache_bytes(type, d->itemsize, (long)n * places * width);
  __global float* scores = (__global float*)scratch;
  __global float* packed = scores + (long)d->ticket_rows * CHUNK;
  __global float* mixed = packed + max(depth + 15 & ~15, width % 64 ? CHUNK : 0) * 64;
  __global float* widened = mixed + (long)d->ticket_rows * width;
  float tops[ROWS], sums[ROWS], scales[ROWS];
  int start = places, last = -1;
  for (int i = 0; i < rows; i++) {
    const int t = (from + i) % tokens, head = n % d->shared * group + (from + i) / tokens;
    tops[i] = d->sink == CLGRAPH_NULL ? -INFINITY : AT(const float, banks, d->sink)[head];
    sums[i] = tops[i] == -INFINITY ? 0.0f : 1.0f;
    start = min(start, first_key(d, first + t));
    last = max(last, last_key(d, first, t, places));
    for (int j = 0; j * 16 < width; j++) store_row(out + (long)i * width, j, width, 0.0f);
  }
  for (int key = start / CHUNK * CHUNK; key <= last; key += CHUNK) {
    const int count = min(CHUNK, last + 1 - key);
    for (int g = 0; g < count; g += 64) {
      const int columns = min(64, count - g);
      __global const char* from = k + cache_bytes(type, d->itemsize, (long)(key + g) * depth);
      __global const float* keys = as_numbers(type, from, widened, columns * depth);
      pack_keys(keys, depth, columns, d->itemsize == 4 ? last + 1 - AHEAD - key - g : 0, packed);
      cache_product(d, q, depth, packed, 64, scores + g, CHUNK, 64, depth, rows);
    }
    for (int i = 0; i < rows; i++) {
      const int t = (from + i) % tokens, head = n % d->shared * group + (from + i) / tokens;
      __global const float* bias = 0;
      if (d->bias != CLGRAPH_NULL)
        bias = AT(const float, banks, d->bias) +
               ((long)text * d->bias_text + (long)head * d->bias_head + (long)t * d->bias_row) * places;
      const float sum = cache_weights(d, scores + i * CHUNK, bias, key, count, first_key(d, first + t),
                                      last_key(d, first, t, places), &tops[i], &scales[i]);
      sums[i] = sums[i] * scales[i] + sum;
    }
    __global const char* from = v + cache_bytes(type, d->itemsize, (long)key * width);
    __global const float* rows_of_values = as_numbers(type, from, widened, count * width);
    for (int g = 0; g < width; g += 64) {
      const int columns = min(64, width - g);
      __global const float* values = rows_of_values + g;
      if (columns < 64) pack_columns(values, width, 1, count, columns, packed);
      cache_product(d, scores, CHUNK, columns < 64 ? packed : values, columns < 64 ? 64 : width, mixed + g, width, columns,
                    count, rows);
    }
    for (int i = 0; i < rows; i++)
      for (int j = 0; j * 16 < width; j++) {
        __global float* to = out + (long)i * width;
        store_row(to, j, width, fma(load_row(to, j, width, 0.0f), (float16)(scales[i]),
                                    load_row(mixed + (long)i * width, j, width, 0.0f)));
      }
  }
  for (int i = 0; i < rows; i++) {
    const float16 scale = sums[i] == 0.0f ? 0.0f : 1.0f / sums[i];
    __global float* to = out + (long)i * width;
    for (int j = 0; j * 16 < width; j++) store_row(to, j, width, load_row(to, j, width, 0.0f) * scale);
  }
}
