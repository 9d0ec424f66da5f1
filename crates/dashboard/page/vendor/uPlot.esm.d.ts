/** The chart library, as far as its types matter here. */
declare const uPlot: any;
export default uPlot;
