// The k best elements along an axis, best first, and their places: a line keeps the best so far as a heap, the worst in front,
// in its results. Of equal ones the first is better, and a NaN is greater than any number.
//
// Grid: one work-item a line, n of them. RANK counts the other axes. table: dims, views of x, y and the places, size of the
// axis, k, whether the greatest are best, the axis' pitches in x, y and the places.
// T, LOAD, STORE as in tensor.clh; V the type that is compared (default float).
// Exact.
#include "tensor.clh"

#ifndef V
  #define V REAL
#endif

// A heap of elements and their places, and from one to the next.
typedef struct {
  __global T* values;
  __global long* places;
  int value_pitch, place_pitch, largest;
} heap;

static int greater(const V a, const V b) { return (a != a && b == b) || a > b; }

// Whether element `a` from place `i` comes before what stands at `j` of the heap.
static int before(const V a, const long i, const heap* h, const int j) {
  const V b = LOAD(h->values, j * h->value_pitch);
  const int more = h->largest ? greater(a, b) : greater(b, a), less = h->largest ? greater(b, a) : greater(a, b);
  return more || (!less && i < h->places[j * h->place_pitch]);
}

static void put(const heap* h, const int at, const V v, const long place) {
  STORE(h->values, at * h->value_pitch, v);
  h->places[at * h->place_pitch] = place;
}

// Puts v where it belongs below `at` in a heap of `count`.
static void sift(const heap* h, const int count, int at, const V v, const long place) {
  for (int child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
    const V own = LOAD(h->values, child * h->value_pitch);
    child += child + 1 < count && before(own, h->places[child * h->place_pitch], h, child + 1);
    if (!before(v, place, h, child)) break;
    put(h, at, LOAD(h->values, child * h->value_pitch), h->places[child * h->place_pitch]);
  }
  put(h, at, v, place);
}

__kernel void top_k_lines(const int n, TENSOR(in0), TENSOR(out0), TENSOR(out1), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* x = table + RANK;
  __global const int* y = x + VIEW;
  __global const int* places = y + VIEW;
  __global const int* rest = places + VIEW;
  __global const T* line = BASE_OF(const T, in0) + element(x, at);
  const heap h = {BASE_OF(T, out0) + element(y, at), BASE_OF(long, out1) + element(places, at), rest[4], rest[5], rest[2]};
  const int count = rest[1];
  for (int i = 0; i < count; i++) put(&h, i, LOAD(line, i * rest[3]), i);
  for (int i = count / 2 - 1; i >= 0; i--) sift(&h, count, i, LOAD(h.values, i * h.value_pitch), h.places[i * h.place_pitch]);
  for (int i = count; i < rest[0]; i++) {
    const V v = LOAD(line, i * rest[3]);
    if (before(v, i, &h, 0)) sift(&h, count, 0, v, i);
  }
  for (int left = count - 1; left > 0; left--) {
    const V worst = LOAD(h.values, 0), v = LOAD(h.values, left * h.value_pitch);
    const long worst_place = h.places[0], place = h.places[left * h.place_pitch];
    put(&h, left, worst, worst_place);
    sift(&h, left, 0, v, place);
  }
}
