// Listeners that get the value of an input field.

/** @param {(text: string) => void} take */
export const onText = (take) => (/** @type {{target: {value: string}}} */ event) => take(event.target.value);

/** @param {(on: boolean) => void} take */
export const onTick = (take) => (/** @type {{target: {checked: boolean}}} */ event) => take(event.target.checked);
